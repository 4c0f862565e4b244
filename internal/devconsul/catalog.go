package devconsul

import (
	"encoding/json"
	"net/http"
	"slices"
)

// Parts of Consul's answers that are always the same here, because Connect is not.
var (
	noProxy   = json.RawMessage(`{"Mode":"","MeshGateway":{},"Expose":{}}`)
	noConnect = json.RawMessage(`{}`)

	noDefinition = json.RawMessage(`{}`)
)

// serviceView is a service within its node.
type serviceView struct {
	ID, Service       string
	Tags              []string
	Address           string
	Meta              map[string]string
	Port              int `json:",omitempty"`
	Weights           weights
	EnableTagOverride bool
	Proxy, Connect    json.RawMessage
	PeerName          string
	stamps
}

func (s *service) view() *serviceView {
	return &serviceView{
		ID: s.ID, Service: s.Service, Tags: orEmpty(s.Tags), Address: s.Address,
		Meta: s.Meta, Port: s.Port,
		Weights: s.Weights, EnableTagOverride: s.EnableTagOverride, Proxy: noProxy,
		Connect: noConnect, stamps: s.stamps,
	}
}

func orEmpty(tags []string) []string {
	if tags == nil {
		return []string{}
	}
	return tags
}

// readTable runs a read. An error comes with the headers as well, if with empty ones. With streams
// the agent of Consul answers from a subscription of its own when the query blocks. Then it needs
// no leader, and other services do not wake it while its own has no instance.
func (s *Server) readTable(w http.ResponseWriter, r *http.Request, streams bool,
	run func(*state, *watchSet) (uint64, bool)) error {
	q, err := s.parseQuery(r)
	if err != nil {
		return err
	}
	q.streaming = streams && q.minIndex > 0
	err = s.read(r.Context(), q, run)
	q.writeHeaders(w.Header())
	return err
}

// readCatalog runs a read of the catalog or of checks.
func (s *Server) readCatalog(w http.ResponseWriter, r *http.Request,
	run func(*state, *watchSet) uint64) error {
	return s.readTable(w, r, false, func(st *state, ws *watchSet) (uint64, bool) {
		return run(st, ws), true
	})
}

func (s *Server) catalogDatacenters(http.ResponseWriter, *http.Request) (any, error) {
	return []string{s.cfg.Datacenter}, nil
}

func (s *Server) catalogNodes(w http.ResponseWriter, r *http.Request) (any, error) {
	var found []*node
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.trees[treeNodes])
		found = under[node](st.trees[treeNodes].Root(), nil, nil)
		return st.idx.Nodes
	})
	return found, err
}

func (s *Server) catalogServices(w http.ResponseWriter, r *http.Request) (any, error) {
	var found map[string][]string
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.trees[treeServices])
		found = make(map[string][]string)
		for _, svc := range under[service](st.trees[treeServices].Root(), nil, nil) {
			tags := orEmpty(found[svc.Service])
			for _, t := range svc.Tags {
				if !slices.Contains(tags, t) {
					tags = append(tags, t)
				}
			}
			found[svc.Service] = tags
		}
		return st.idx.Services
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
