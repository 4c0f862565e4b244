package devconsul

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

// Parts of Consul's answers that are always the same here, because Connect is not.
var (
	noProxy   = json.RawMessage(`{"Mode":"","MeshGateway":{},"Expose":{}}`)
	noConnect = json.RawMessage(`{}`)
)

// serviceView is a service within its node.
type serviceView struct {
	ID, Service       string
	Tags              []string
	Address           string
	TaggedAddresses   map[string]serviceAddress `json:",omitempty"`
	Meta              map[string]string
	Port              int `json:",omitempty"`
	Weights           weights
	EnableTagOverride bool
	Proxy, Connect    json.RawMessage
	PeerName          string
	CreateIndex       uint64
	ModifyIndex       uint64
}

func (s *service) view() *serviceView {
	return &serviceView{
		ID: s.ID, Service: s.Service, Tags: orEmpty(s.Tags), Address: s.Address,
		TaggedAddresses: s.TaggedAddresses, Meta: s.Meta, Port: s.Port,
		Weights: s.Weights, EnableTagOverride: s.EnableTagOverride, Proxy: noProxy,
		Connect:     noConnect,
		CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex,
	}
}

// serviceNodeView is a service with its node's fields beside it, as catalog/service shows it.
type serviceNodeView struct {
	ID, Node, Address, Datacenter string
	TaggedAddresses, NodeMeta     map[string]string
	ServiceKind                   string
	ServiceID, ServiceName        string
	ServiceTags                   []string
	ServiceAddress                string
	ServiceTaggedAddresses        map[string]serviceAddress `json:",omitempty"`
	ServiceWeights                weights
	ServiceMeta                   map[string]string
	ServicePort                   int
	ServicePorts                  []string
	ServiceSocketPath             string
	ServiceEnableTagOverride      bool
	ServiceProxy, ServiceConnect  json.RawMessage
	ServiceLocality               *struct{}
	CreateIndex, ModifyIndex      uint64
}

func orEmpty(tags []string) []string {
	if tags == nil {
		return []string{}
	}
	return tags
}

// readCatalog runs a read of the catalog or of checks.
func (s *Server) readCatalog(w http.ResponseWriter, r *http.Request,
	run func(*state, *watchSet) uint64) error {
	q, err := s.parseQuery(r)
	if err != nil {
		return err
	}
	err = s.read(r.Context(), q, func(st *state, ws *watchSet) (uint64, bool) {
		return run(st, ws), true
	})
	// An error comes with the headers as well, if with empty ones.
	if err == nil {
		q.effective()
	}
	q.writeHeaders(w.Header())
	return err
}

func (s *Server) catalogRegister(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in api.CatalogRegistration
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Datacenter != "" && in.Datacenter != s.cfg.Datacenter {
		return nil, errNoDatacenter
	}
	if err := checkNode(in.Node, in.ID); err != nil {
		return nil, err
	}
	if in.Address == "" && !in.SkipNodeUpdate {
		return nil, fmt.Errorf("Must provide address if SkipNodeUpdate is not set")
	}
	if in.Service != nil {
		if err := checkService(in.Service); err != nil {
			return nil, err
		}
	}
	var checks []check
	if c := in.Check; c != nil {
		checks = append(checks, check{
			Node: c.Node, CheckID: c.CheckID, Name: c.Name, Status: c.Status, Notes: c.Notes,
			Output: c.Output, ServiceID: c.ServiceID, ServiceName: c.ServiceName, Type: c.Type,
			Definition: definitionOf(&c.Definition),
		})
	}
	for _, c := range in.Checks {
		if c == nil {
			return nil, badRequest("Checks holds null: leave it out, or name a check")
		}
		checks = append(checks, checkOf(c))
	}
	for i := range checks {
		if checks[i].Type == "" {
			checks[i].Type = checks[i].Definition.kind()
		}
	}
	err := s.apply(func(w *writeTxn) error {
		err := w.register(&in, checks, s.cfg.Datacenter)
		w.log(CommitOp{Verb: "register", Key: in.Node}, true, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	return true, nil
}

func (w *writeTxn) register(in *api.CatalogRegistration, checks []check, dc string) error {
	if _, known := w.root(treeNodes).Get(treeKey(fold(in.Node))); !known || !in.SkipNodeUpdate {
		w.ensureNode(node{
			ID: in.ID, Node: in.Node, Address: in.Address, Datacenter: dc,
			TaggedAddresses: in.TaggedAddresses, Meta: in.NodeMeta,
		})
	}
	if svc := in.Service; svc != nil {
		if err := w.ensureService(serviceOf(in.Node, svc)); err != nil {
			return fmt.Errorf("failed inserting service: %w", err)
		}
	}
	for _, c := range checks {
		if c.Node == "" {
			c.Node = in.Node
		}
		if c.CheckID == "" {
			c.CheckID = c.Name
		}
		if c.Node != in.Node {
			return fmt.Errorf("Node '%s' for check '%s' doesn't match register request node '%s'",
				c.Node, c.CheckID, in.Node)
		}
		if err := w.ensureCheck(c); errors.Is(err, errMissingService) {
			return fmt.Errorf("Unknown service ID '%s' for check ID '%s'", c.ServiceID, c.CheckID)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) catalogDeregister(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in api.CatalogDeregistration
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Datacenter != "" && in.Datacenter != s.cfg.Datacenter {
		return nil, errNoDatacenter
	}
	if in.Node == "" {
		return nil, errNoNode
	}
	err := s.apply(func(w *writeTxn) error {
		w.log(CommitOp{Verb: "deregister", Key: in.Node}, true, nil)
		w.deregistered = append(w.deregistered, in.Node)
		switch {
		case in.ServiceID != "":
			w.deleteService(in.Node, in.ServiceID)
		case in.CheckID != "":
			w.deleteCheck(in.Node, in.CheckID)
		default:
			w.deleteNode(in.Node)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return true, nil
}

func (s *Server) catalogDatacenters(http.ResponseWriter, *http.Request) (any, error) {
	return []string{s.cfg.Datacenter}, nil
}

func (s *Server) catalogNodes(w http.ResponseWriter, r *http.Request) (any, error) {
	found, wanted := []*node{}, metaFilterOf(r)
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.nodes)
		found = append(found[:0], under(st.nodes.Root(), nil, func(n *node) bool {
			return wanted.accepts(n.Meta)
		})...)
		return st.idx.Nodes
	})
	return found, err
}

// metaFilter is what ?node-meta=key:value asks of a node's metadata.
type metaFilter map[string]string

func metaFilterOf(r *http.Request) metaFilter {
	f := metaFilter{}
	for _, pair := range r.URL.Query()["node-meta"] {
		key, value, _ := strings.Cut(pair, ":")
		f[key] = value
	}
	return f
}

func (f metaFilter) accepts(meta map[string]string) bool {
	for key, value := range f {
		if have, ok := meta[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// acceptsNode is accepts for the node of that name.
func (f metaFilter) acceptsNode(st *state, name string) bool {
	if len(f) == 0 {
		return true
	}
	v, ok := st.nodes.Get(treeKey(fold(name)))
	return ok && f.accepts(v.(*node).Meta)
}

func (s *Server) catalogServices(w http.ResponseWriter, r *http.Request) (any, error) {
	var found map[string][]string
	wanted := metaFilterOf(r)
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.services)
		index := st.idx.Services
		if len(wanted) > 0 {
			watchAll(ws, st.nodes)
			index = max(index, st.idx.Nodes)
		}
		found = make(map[string][]string)
		for _, svc := range under[service](st.services.Root(), nil, nil) {
			if !wanted.acceptsNode(st, svc.Node) {
				continue
			}
			tags := orEmpty(found[svc.Service])
			for _, t := range svc.Tags {
				if !slices.Contains(tags, t) {
					tags = append(tags, t)
				}
			}
			found[svc.Service] = tags
		}
		return index
	})
	return found, err
}

func (s *Server) catalogService(w http.ResponseWriter, r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/catalog/service/")
	if name == "" {
		return nil, badRequest("Missing service name")
	}
	var found []*serviceNodeView
	wanted := metaFilterOf(r)
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.services, st.nodes)
		found = []*serviceNodeView{}
		all := servicesNamed(st.services.Root(), name)
		for _, svc := range all {
			if !svc.hasTags(r.URL.Query()["tag"]) || !wanted.acceptsNode(st, svc.Node) {
				continue
			}
			v, _ := st.nodes.Get(treeKey(fold(svc.Node)))
			n := v.(*node)
			meta := svc.Meta
			if meta == nil {
				meta = map[string]string{}
			}
			found = append(found, &serviceNodeView{
				ID: n.ID, Node: n.Node, Address: n.Address, Datacenter: n.Datacenter,
				TaggedAddresses: n.TaggedAddresses, NodeMeta: n.Meta,
				ServiceID: svc.ID, ServiceName: svc.Service, ServiceTags: orEmpty(svc.Tags),
				ServiceAddress:         svc.Address,
				ServiceTaggedAddresses: svc.TaggedAddresses,
				ServiceWeights:         svc.Weights, ServiceMeta: meta, ServicePort: svc.Port,
				ServiceEnableTagOverride: svc.EnableTagOverride, ServiceProxy: noProxy,
				ServiceConnect: noConnect,
				CreateIndex:    svc.CreateIndex, ModifyIndex: svc.ModifyIndex,
			})
		}
		return st.serviceIndex(name, len(all) > 0, false)
	})
	return found, err
}

func (s *service) hasTags(want []string) bool {
	for _, t := range want {
		if t != "" && !slices.ContainsFunc(s.Tags, func(have string) bool {
			return fold(have) == fold(t)
		}) {
			return false
		}
	}
	return true
}

func (s *Server) catalogNode(w http.ResponseWriter, r *http.Request) (any, error) {
	n, svcs, err := s.nodeServices(w, r, strings.TrimPrefix(r.URL.Path, "/v1/catalog/node/"))
	if err != nil || n == nil {
		return null{}, err
	}
	byID := make(map[string]*serviceView, len(svcs))
	for _, svc := range svcs {
		byID[svc.ID] = svc
	}
	return struct {
		Node     *node
		Services map[string]*serviceView
	}{n, byID}, nil
}

func (s *Server) catalogNodeServices(w http.ResponseWriter, r *http.Request) (any, error) {
	n, svcs, err := s.nodeServices(w, r, strings.TrimPrefix(r.URL.Path,
		"/v1/catalog/node-services/"))
	return struct {
		Node     *node
		Services []*serviceView
	}{n, svcs}, err
}

func (s *Server) nodeServices(w http.ResponseWriter, r *http.Request, name string) (n *node,
	svcs []*serviceView, err error) {
	if name == "" {
		return nil, nil, badRequest("Missing node name")
	}
	err = s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.services, st.nodes)
		n, svcs = nil, nil
		v, ok := st.nodes.Get(treeKey(fold(name)))
		if !ok {
			return 0
		}
		n, svcs = v.(*node), []*serviceView{}
		for _, svc := range servicesOf(st.services.Root(), name) {
			svcs = append(svcs, svc.view())
		}
		return max(st.idx.Nodes, st.idx.Services)
	})
	return n, svcs, err
}
