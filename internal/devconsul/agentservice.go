package devconsul

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// version is that of the Consul whose answers these are.
	version    = "1.22.7"
	serverPort = 8300
	serverAddr = "127.0.0.1:8300"
)

// newCheck makes a check of the agent from its definition. Only TTL checks are run.
func (a *Agent) newCheck(def *api.AgentServiceCheck) (*localCheck, error) {
	c := &localCheck{check: check{Node: a.name, CheckID: def.CheckID, Name: def.Name,
		Status: cmp.Or(def.Status, statusCritical), Notes: def.Notes, Type: "ttl",
		Definition: noDefinition}}
	var err, err2 error
	c.ttl, err = time.ParseDuration(cmp.Or(def.TTL, "0"))
	c.reap, err2 = time.ParseDuration(cmp.Or(def.DeregisterCriticalServiceAfter, "0"))
	if err = cmp.Or(err, err2); err != nil {
		return nil, badRequest("Request decode failed: %v", err)
	}
	if c.ttl <= 0 {
		return nil, badRequest("Invalid check: TTL must be > 0 for TTL checks")
	}
	return c, nil
}

// emptyCheck is true of a definition that says nothing, such as one with a TTL of zero.
func emptyCheck(c api.AgentServiceCheck) bool {
	if d, err := time.ParseDuration(c.TTL); err == nil && d == 0 {
		c.TTL = ""
	}
	return reflect.DeepEqual(c, api.AgentServiceCheck{})
}

func anyAddress(a string) bool { return a == "0.0.0.0" || a == "::" || a == "[::]" }

// agentService is a service as the agent, not the catalog, shows it.
type agentService struct {
	ID, Service       string
	Tags              []string
	Meta              map[string]string
	Port              int
	Address           string
	Weights           weights
	EnableTagOverride bool
	Datacenter        string
}

func (s *Server) localView(svc *service) *agentService {
	v := &agentService{
		ID: svc.ID, Service: svc.Service, Tags: orEmpty(svc.Tags), Meta: svc.Meta, Port: svc.Port,
		Address: svc.Address, Weights: svc.Weights,
		EnableTagOverride: svc.EnableTagOverride,
		Datacenter:        s.cfg.Datacenter,
	}
	if v.Meta == nil {
		v.Meta = map[string]string{}
	}
	return v
}

func (s *Server) agentServices(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := checkFilter(r.URL.Query()); err != nil {
		return nil, err
	}
	a := s.agentOf(r)
	all := make(map[string]*agentService, len(a.services))
	for id, svc := range a.services {
		all[id] = s.localView(svc)
	}
	return all, nil
}

// agentService shows one service. It does not block on a hash: it answers at once.
func (s *Server) agentService(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/service/")
	svc := s.agentOf(r).services[id]
	if svc == nil {
		return nil, notFound("unknown service ID: %s", id)
	}
	return s.localView(svc), nil
}

func (s *Server) agentServiceRegister(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in api.AgentServiceRegistration
	a := s.agentOf(r)
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, badRequest("Missing service name")
	}
	if anyAddress(in.Address) {
		return nil, badRequest("Invalid service address")
	}
	svc := &service{
		Node: a.name, ID: in.ID, Service: in.Name, Tags: in.Tags, Address: in.Address,
		Meta: in.Meta,
		Port: in.Port, Weights: weights{1, 1}, EnableTagOverride: in.EnableTagOverride,
	}
	if svc.ID == "" {
		svc.ID = in.Name
	}
	if in.Weights != nil {
		svc.Weights = weights(*in.Weights)
	}
	defs := in.Checks
	// An empty Check is none; an empty one among Checks is an error.
	if in.Check != nil && !emptyCheck(*in.Check) {
		defs = append(api.AgentServiceChecks{in.Check}, defs...)
	}
	var checks []*localCheck
	for i, def := range defs {
		if def == nil {
			return nil, badRequest("Checks holds null: leave it out, or say what to check")
		}
		c, err := a.newCheck(def)
		if err != nil {
			return nil, err
		}
		if !validStatus(c.Status) {
			return nil, badRequest("Status for checks must 'passing', 'warning', 'critical'")
		}
		id := "service:" + svc.ID
		if len(defs) > 1 {
			id += fmt.Sprintf(":%d", i+1)
		}
		c.CheckID = cmp.Or(c.CheckID, id)
		c.Name = cmp.Or(c.Name, fmt.Sprintf("Service '%s' check", svc.Service))
		c.ServiceID, c.ServiceName, c.ServiceTags = svc.ID, svc.Service, svc.Tags
		checks = append(checks, c)
	}

	a.services[svc.ID] = svc
	a.syncServiceLocked(svc)
	keep := make(map[string]bool, len(checks))
	for _, c := range checks {
		keep[c.CheckID] = true
		a.addCheckLocked(c)
	}
	if q := r.URL.Query(); q.Has("replace-existing-checks") {
		if v := q.Get("replace-existing-checks"); v == "" || v == "true" {
			a.dropChecksLocked(svc.ID, keep)
		}
	}
	return nil, nil
}

func (a *Agent) dropChecksLocked(serviceID string, keep map[string]bool) {
	for id, c := range a.checks {
		if c.ServiceID == serviceID && !keep[id] {
			a.dropCheckLocked(id)
		}
	}
}

func (s *Server) agentServiceDeregister(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/service/deregister/")
	a := s.agentOf(r)
	if a.services[id] == nil {
		return nil, notFound("Unknown service ID %q. Ensure that the service ID is passed, not "+
			"the service name.", id)
	}
	a.dropServiceLocked(id)
	return nil, nil
}

func (a *Agent) dropServiceLocked(id string) {
	a.dropChecksLocked(id, nil)
	delete(a.services, id)
	a.syncLocked(func(w *writeTxn) error { w.deleteService(a.name, id); return nil })
}
