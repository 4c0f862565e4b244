package devconsul

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// localCheck is a check of the agent. It turns critical unless reported in time.
type localCheck struct {
	check
	ttl      time.Duration
	timer    *time.Timer // nil: no report is waited for yet
	deadline time.Time
	reported string        // the last output since it was registered
	expires  time.Time     // when the last report expires, which the agent keeps on its disk
	reap     time.Duration // critical so long, its service is deregistered; 0: never
	reaper   *time.Timer   // deregisters the service; nil: no report has made the check critical
}

func (c *localCheck) stop() {
	c.stopTTL()
	c.stopReaper()
}

func (c *localCheck) stopTTL() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *localCheck) stopReaper() {
	if c.reaper != nil {
		c.reaper.Stop()
		c.reaper = nil
	}
}

// setCheckLocked takes a report on a check. It writes to the catalog only when the status changes,
// as Consul does: a check that passes again and again costs no log entry.
func (a *Agent) setCheckLocked(c *localCheck, status, output string) {
	changed := c.Status != status
	c.Status, c.Output = status, output
	if changed {
		a.syncCheckLocked(c)
	}
	if status == statusCritical {
		a.reapLaterLocked(c)
	} else {
		c.stopReaper()
	}
}

// startTTLLocked starts or restarts the time a check has until its next report.
func (a *Agent) startTTLLocked(c *localCheck) {
	s := a.s
	c.deadline = time.Now().Add(c.ttl)
	c.stopTTL()
	c.timer = time.AfterFunc(c.ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.isClosed || a.life.Err() != nil || a.checks[c.CheckID] != c ||
			time.Now().Before(c.deadline) {
			return
		}
		output := "TTL expired"
		if c.reported != "" {
			output += " (last output before timeout follows): " + c.reported
		}
		a.setCheckLocked(c, statusCritical, output)
	})
}

func (s *Server) agentChecks(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := checkFilter(r.URL.Query()); err != nil {
		return nil, err
	}
	a := s.agentOf(r)
	all := make(map[string]*check, len(a.checks))
	for id, c := range a.checks {
		copied := c.check
		copied.ServiceTags = orEmpty(copied.ServiceTags)
		all[id] = &copied
	}
	return all, nil
}

func (s *Server) agentCheckRegister(_ http.ResponseWriter, r *http.Request) (any, error) {
	a := s.agentOf(r)
	var in api.AgentCheckRegistration
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, badRequest("Missing check name")
	}
	c, err := a.newCheck(&in.AgentServiceCheck)
	if err != nil {
		return nil, err
	}
	if !validStatus(c.Status) {
		return nil, badRequest("Bad check status")
	}
	c.Name, c.CheckID, c.ServiceID = in.Name, cmp.Or(in.ID, in.Name), in.ServiceID
	c.Notes, c.Interval, c.Timeout = in.Notes, "0s", "0s"
	if c.ServiceID != "" {
		svc := a.services[c.ServiceID]
		if svc == nil {
			return nil, notFound("ServiceID %q does not exist", c.ServiceID)
		}
		c.ServiceName, c.ServiceTags = svc.Service, svc.Tags
	}
	a.addCheckLocked(c)
	return nil, nil
}

func (a *Agent) addCheckLocked(c *localCheck) {
	if old := a.checks[c.CheckID]; old != nil {
		// Registering again does not take a check's state away.
		c.Status, c.Output, c.expires = old.Status, old.Output, old.expires
		old.stop()
	}
	a.checks[c.CheckID] = c
	a.startTTLLocked(c)
	a.syncCheckLocked(c)
}

// errUnknownCheck is what the agent says about checks it does not know.
func errUnknownCheck(id string) error {
	return notFound("Unknown check ID %q. Ensure that the check ID is passed, not the check name.",
		id)
}

func (s *Server) agentCheckDeregister(_ http.ResponseWriter, r *http.Request) (any, error) {
	a := s.agentOf(r)
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/check/deregister/")
	if a.checks[id] == nil {
		return nil, errUnknownCheck(id)
	}
	a.dropCheckLocked(id)
	return nil, nil
}

// A service whose check has been critical for a while is deregistered, if it asked for that: Consul
// takes a minute at least, and looks every half a minute. It counts from the report, or the end of
// the TTL, that made the check critical; a check that was registered as critical does not count.
const (
	reapAtLeast = time.Minute
	reapEvery   = 30 * time.Second
)

func (a *Agent) reapLaterLocked(c *localCheck) {
	if c.reap <= 0 || c.ServiceID == "" || c.reaper != nil {
		return
	}
	var reaper *time.Timer
	reaper = time.AfterFunc(max(c.reap, reapAtLeast)+reapEvery, func() {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		if c.reaper == reaper { // else the check has passed since, or is gone
			a.dropServiceLocked(c.ServiceID)
		}
	})
	c.reaper = reaper
}

func (a *Agent) dropCheckLocked(id string) {
	a.checks[id].stop()
	delete(a.checks, id)
	a.syncLocked(func(w *writeTxn) error { w.deleteCheck(a.name, id); return nil })
}

// agentCheckSet serves pass, warn and fail.
func (s *Server) agentCheckSet(_ http.ResponseWriter, r *http.Request) (any, error) {
	verb, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/agent/check/"), "/")
	status := map[string]string{"pass": statusPassing, "warn": statusWarning,
		"fail": statusCritical}[verb]
	return s.agentOf(r).reportCheck(id, status, r.URL.Query().Get("note"))
}

func (s *Server) agentCheckUpdate(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct{ Status, Output string }
	if err := decode(r.Body, &in); err != nil {
		return nil, err
	}
	if !validStatus(in.Status) {
		return nil, badRequest("Invalid check status: '%s'", in.Status)
	}
	return s.agentOf(r).reportCheck(strings.TrimPrefix(r.URL.Path, "/v1/agent/check/update/"),
		in.Status, in.Output)
}

// maxCheckOutput is how much of a check's output is kept, in bytes (check_output_max_size).
const maxCheckOutput = 4096

func (a *Agent) reportCheck(id, status, output string) (any, error) {
	c := a.checks[id]
	if c == nil {
		return nil, errUnknownCheck(id)
	}
	if n := len(output); n > maxCheckOutput {
		output = fmt.Sprintf("%s ... (captured %d of %d bytes)", output[:maxCheckOutput],
			maxCheckOutput, n)
	}
	c.reported = output
	c.expires = time.Now().Add(c.ttl)
	a.setCheckLocked(c, status, output)
	a.startTTLLocked(c)
	return nil, nil
}
