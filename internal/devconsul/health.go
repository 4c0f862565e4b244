package devconsul

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// healthQuery reads all checks that keep accepts. Its index is that of the table.
func (s *Server) healthQuery(w http.ResponseWriter, r *http.Request,
	keep func(*check) bool) (any, error) {
	var found []*check
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.checks)
		found = under(st.checks.Root(), nil, keep)
		return st.idx.Checks
	})
	return found, err
}

func (s *Server) healthNode(w http.ResponseWriter, r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/health/node/")
	if name == "" {
		return nil, badRequest("Missing node name")
	}
	return s.healthQuery(w, r, func(c *check) bool { return fold(c.Node) == fold(name) })
}

func (s *Server) healthChecks(w http.ResponseWriter, r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/health/checks/")
	if name == "" {
		return nil, badRequest("Missing service name")
	}
	return s.healthQuery(w, r, func(c *check) bool {
		return fold(c.ServiceName) == fold(name)
	})
}

// checkedService is a service with its node and all checks that bear on it.
type checkedService struct {
	Node    *node
	Service *serviceView
	Checks  []*check
}

func (s *Server) healthService(w http.ResponseWriter, r *http.Request) (any, error) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/health/service/")
	if name == "" {
		return nil, badRequest("Missing service name")
	}
	params := r.URL.Query()
	passing := params.Has("passing")
	if v := params.Get("passing"); v != "" {
		var err error
		if passing, err = strconv.ParseBool(v); err != nil {
			return nil, badRequest("Invalid value for ?passing")
		}
	}
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	// Consul's agent answers this query from a subscription of its own when it blocks. It needs no
	// leader then, and other services do not wake it while this one has no instance.
	q.streaming = q.minIndex > 0
	var found []checkedService
	err = s.read(r.Context(), q, func(st *state, ws *watchSet) (uint64, bool) {
		// The index of the service rises with all that bears on it, so it is enough to watch that.
		ch, _, _ := st.svcIndex.Root().GetWatch(treeKey(fold(name)))
		ws.add(ch)
		found = []checkedService{}
		all := servicesNamed(st.services.Root(), name)
		for _, svc := range all {
			if !svc.hasTags(params["tag"]) {
				continue
			}
			checks := checksOn(st, svc)
			if passing && slices.ContainsFunc(checks, func(c *check) bool {
				return c.Status != statusPassing
			}) {
				continue
			}
			v, _ := st.nodes.Get(treeKey(fold(svc.Node)))
			found = append(found, checkedService{v.(*node), svc.view(), checks})
		}
		return st.serviceIndex(name, len(all) > 0, true), len(all) > 0
	})
	if err == nil {
		q.writeHeaders(w.Header())
	}
	return found, err
}

// checksOn are the checks of a service's node, and then the service's own.
func checksOn(st *state, svc *service) (checks []*check) {
	checks = []*check{}
	all := checksOf(st.checks.Root(), svc.Node)
	for _, id := range []string{"", svc.ID} {
		for _, c := range all {
			if fold(c.ServiceID) == fold(id) {
				checks = append(checks, c)
			}
		}
	}
	return checks
}

func (s *Server) statusLeader(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	if q.datacenter != nil {
		return nil, q.datacenter
	}
	if s.leadership.Load().isLost() {
		return "", nil
	}
	return serverAddr, nil
}

func (s *Server) statusPeers(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	if q.datacenter != nil {
		return nil, q.datacenter
	}
	return []string{serverAddr}, nil
}
