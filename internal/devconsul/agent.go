package devconsul

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// agentState is what the agent itself knows: services and checks registered with it. It lives
// outside of the log; the agent writes it to the catalog, and again when the catalog has lost it.
type agentState struct {
	services map[string]*service
	checks   map[string]*localCheck
	resync   *time.Timer
}

// localCheck is a check of the agent; with a TTL it turns critical unless reported in time.
type localCheck struct {
	check
	ttl      time.Duration
	timer    *time.Timer
	deadline time.Time
}

// resyncAfter is how long it takes the agent to notice that the catalog has lost its records (the
// interval of Consul's anti-entropy in a small cluster).
const resyncAfter = time.Minute

func newAgentState() agentState {
	return agentState{services: make(map[string]*service), checks: make(map[string]*localCheck)}
}

func (a *agentState) stop() {
	for _, c := range a.checks {
		c.stop()
	}
	if a.resync != nil {
		a.resync.Stop()
	}
}

func (c *localCheck) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// syncLater has the agent repair the catalog after a while. The caller holds mu.
func (a *agentState) syncLater(s *Server) {
	if a.resync == nil {
		a.resync = time.AfterFunc(resyncAfter, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.syncAgentLocked()
		})
		return
	}
	a.resync.Reset(resyncAfter)
}

// registerSelfLocked writes the one node there is to the catalog, as a leader does that sees it
// alive.
func (s *Server) registerSelfLocked() error {
	return s.applyLocked(func(w *writeTxn) error {
		w.log(CommitOp{Verb: "register", Key: s.cfg.NodeName}, true, nil)
		w.ensureNode(node{
			ID: s.nodeID, Node: s.cfg.NodeName, Address: "127.0.0.1", Datacenter: s.cfg.Datacenter,
			TaggedAddresses: map[string]string{
				"lan": "127.0.0.1", "lan_ipv4": "127.0.0.1", "wan": "127.0.0.1",
				"wan_ipv4": "127.0.0.1",
			},
			Meta: map[string]string{"consul-network-segment": "", "consul-version": version},
		})
		err := w.ensureService(service{
			Node: s.cfg.NodeName, ID: "consul", Service: "consul", Port: serverPort,
			Weights: weights{1, 1},
			Meta:    map[string]string{"version": version},
		})
		if err != nil {
			return err
		}
		return w.ensureCheck(check{
			Node: s.cfg.NodeName, CheckID: serfCheckID, Name: "Serf Health Status",
			Status: statusPassing,
			Output: "Agent alive and reachable",
		})
	})
}

// syncAgentLocked writes all that the agent knows to the catalog. It does nothing without a leader:
// the next one will ask for it.
func (s *Server) syncAgentLocked() {
	if s.isClosed || !s.leadership.Load().applies() || s.registerSelfLocked() != nil {
		return
	}
	for _, svc := range s.agent.services {
		s.syncServiceLocked(svc)
	}
	for _, c := range s.agent.checks {
		s.syncCheckLocked(c)
	}
}

func (s *Server) syncServiceLocked(svc *service) {
	s.syncLocked(func(w *writeTxn) error { return w.ensureService(*svc) })
}

func (s *Server) syncCheckLocked(c *localCheck) {
	s.syncLocked(func(w *writeTxn) error { return w.ensureCheck(c.check) })
}

// syncLocked writes to the catalog for the agent. Failing is no error of the caller's: the agent
// has taken the registration, and tries again later.
func (s *Server) syncLocked(f func(*writeTxn) error) {
	err := s.applyLocked(func(w *writeTxn) error {
		w.log(CommitOp{Verb: "register", Key: s.cfg.NodeName}, true, nil)
		return f(w)
	})
	if err != nil {
		s.agent.syncLater(s)
	}
}

// setCheckLocked is a report on a check. The catalog is written only when the status changes: a
// check that passes again and again costs no log entry, in Consul as here.
func (s *Server) setCheckLocked(c *localCheck, status, output string) {
	changed := c.Status != status
	c.Status, c.Output = status, output
	if changed {
		s.syncCheckLocked(c)
	}
}

// startTTLLocked starts or restarts the time a check has until its next report.
func (s *Server) startTTLLocked(c *localCheck) {
	if c.ttl <= 0 {
		return
	}
	c.deadline = time.Now().Add(c.ttl)
	if c.timer != nil {
		c.timer.Reset(c.ttl)
		return
	}
	c.timer = time.AfterFunc(c.ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.isClosed || s.agent.checks[c.CheckID] != c || time.Now().Before(c.deadline) {
			return
		}
		output := "TTL expired"
		if c.Output != "" {
			output = fmt.Sprintf("%s (last output before timeout follows): %s", output, c.Output)
		}
		s.setCheckLocked(c, statusCritical, output)
	})
}

func (s *Server) agentChecks(http.ResponseWriter, *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]*check, len(s.agent.checks))
	for id, c := range s.agent.checks {
		copied := c.check
		all[id] = shown([]*check{&copied})[0]
	}
	return all, nil
}

func (s *Server) agentCheckRegister(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in api.AgentCheckRegistration
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, badRequest("Missing check name")
	}
	if in.Status != "" && !validStatus(in.Status) {
		return nil, badRequest("Bad check status")
	}
	ct, err := parseCheckType(&in.AgentServiceCheck)
	if err != nil {
		return nil, err
	}
	c := &localCheck{ttl: ct.ttl, check: check{
		Node: s.cfg.NodeName, CheckID: in.ID, Name: in.Name, Status: in.Status, Notes: in.Notes,
		ServiceID: in.ServiceID, Type: ct.kind, Interval: ct.interval.String(),
		Timeout: ct.timeout.String(),
	}}
	if c.CheckID == "" {
		c.CheckID = in.Name
	}
	if c.Status == "" {
		c.Status = statusCritical
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, ErrClosed
	}
	if c.ServiceID != "" {
		svc := s.agent.services[c.ServiceID]
		if svc == nil {
			return nil, &httpError{http.StatusNotFound, fmt.Sprintf("ServiceID %q does not exist",
				c.ServiceID)}
		}
		c.ServiceName, c.ServiceTags = svc.Service, svc.Tags
	}
	s.addCheckLocked(c)
	return nil, nil
}

func (s *Server) addCheckLocked(c *localCheck) {
	if old := s.agent.checks[c.CheckID]; old != nil {
		// Registering again does not take a check's state away.
		c.Status, c.Output = old.Status, old.Output
		old.stop()
	}
	s.agent.checks[c.CheckID] = c
	s.startTTLLocked(c)
	s.syncCheckLocked(c)
}

// errUnknownCheck is what the agent says about checks it does not know.
func errUnknownCheck(id string) error {
	return &httpError{http.StatusNotFound,
		fmt.Sprintf("Unknown check ID %q. Ensure that the check ID is passed, not the check name.",
			id)}
}

func (s *Server) agentCheckDeregister(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/check/deregister/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, ErrClosed
	}
	if s.agent.checks[id] == nil {
		return nil, errUnknownCheck(id)
	}
	s.dropCheckLocked(id)
	return nil, nil
}

func (s *Server) dropCheckLocked(id string) {
	s.agent.checks[id].stop()
	delete(s.agent.checks, id)
	s.syncLocked(func(w *writeTxn) error { w.deleteCheck(s.cfg.NodeName, id); return nil })
}

// agentCheckSet serves pass, warn and fail.
func (s *Server) agentCheckSet(_ http.ResponseWriter, r *http.Request) (any, error) {
	verb, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/agent/check/"), "/")
	status := map[string]string{"pass": statusPassing, "warn": statusWarning,
		"fail": statusCritical}[verb]
	return s.reportCheck(id, status, r.URL.Query().Get("note"))
}

func (s *Server) agentCheckUpdate(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct{ Status, Output string }
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if !validStatus(in.Status) {
		return nil, badRequest("Invalid check status: '%s'", in.Status)
	}
	return s.reportCheck(strings.TrimPrefix(r.URL.Path, "/v1/agent/check/update/"), in.Status,
		in.Output)
}

// maxCheckOutput is how much of a check's output is kept, in bytes (check_output_max_size).
const maxCheckOutput = 4096

func (s *Server) reportCheck(id, status, output string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, ErrClosed
	}
	c := s.agent.checks[id]
	if c == nil {
		return nil, errUnknownCheck(id)
	}
	if c.ttl <= 0 {
		return nil, fmt.Errorf("CheckID %q does not have associated TTL", id)
	}
	if n := len(output); n > maxCheckOutput {
		output = fmt.Sprintf("%s ... (captured %d of %d bytes)", output[:maxCheckOutput],
			maxCheckOutput, n)
	}
	s.setCheckLocked(c, status, output)
	s.startTTLLocked(c)
	return nil, nil
}
