package devconsul

import (
	"net/http"
	"slices"
	"strconv"
)

// healthQuery reads all checks that keep accepts. Its index is that of the table.
func (s *Server) healthQuery(w http.ResponseWriter, r *http.Request,
	keep func(*check) bool) (any, error) {
	var found []*check
	err := s.readCatalog(w, r, func(st *state, ws *watchSet) uint64 {
		watchAll(ws, st.trees[treeChecks])
		found = under(st.trees[treeChecks].Root(), nil, keep)
		return st.idx.Checks
	})
	return found, err
}

func (s *Server) healthNode(w http.ResponseWriter, r *http.Request, name string) (any, error) {
	return s.healthQuery(w, r, func(c *check) bool { return fold(c.Node) == fold(name) })
}

func (s *Server) healthChecks(w http.ResponseWriter, r *http.Request, name string) (any, error) {
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

func (s *Server) healthService(w http.ResponseWriter, r *http.Request, name string) (any, error) {
	params := r.URL.Query()
	passing := params.Has("passing")
	if v := params.Get("passing"); v != "" {
		var err error
		if passing, err = strconv.ParseBool(v); err != nil {
			return nil, badRequest("Invalid value for ?passing")
		}
	}
	var found []checkedService
	err := s.readTable(w, r, true, func(st *state, ws *watchSet) (uint64, bool) {
		// The index of the service rises with all that bears on it, so it is enough to watch that.
		ch, _, _ := st.trees[treeSvcIndex].Root().GetWatch(treeKey(fold(name)))
		ws.add(ch)
		found = []checkedService{}
		all := servicesNamed(st.trees[treeServices].Root(), name)
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
			v, _ := st.trees[treeNodes].Get(treeKey(fold(svc.Node)))
			found = append(found, checkedService{v.(*node), svc.view(), checks})
		}
		return st.serviceIndex(name, len(all) > 0, true), len(all) > 0
	})
	return found, err
}

// checksOn are the checks of a service's node, and then the service's own.
func checksOn(st *state, svc *service) (checks []*check) {
	checks = []*check{}
	all := checksOf(st.trees[treeChecks].Root(), svc.Node)
	for _, id := range []string{"", svc.ID} {
		for _, c := range all {
			if fold(c.ServiceID) == fold(id) {
				checks = append(checks, c)
			}
		}
	}
	return checks
}

// status answers with what needs no leader.
func (s *Server) status(answer func() any) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		q, err := s.parseQuery(r)
		if err == nil {
			err = q.datacenter
		}
		if err != nil {
			return nil, err
		}
		return answer(), nil
	}
}

func (s *Server) leaderAddr() any {
	if s.leadership.Load().isLost() {
		return ""
	}
	return serverAddr
}
