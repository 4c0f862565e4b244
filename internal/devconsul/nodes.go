package devconsul

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
)

// Agent is a node of the cluster with a client agent of its own: services, checks and sessions that
// are made through it are of its node. It answers all else from the server. Make one with
// [Server.AddAgent].
type Agent struct {
	s                 *Server
	name, id, address string

	// What follows is the agent's own state, outside of the log. The agent writes it to the
	// catalog, and again when the catalog has lost it. The server's mu guards it.
	services map[string]*service
	checks   map[string]*localCheck
	gossip   int
	life     context.Context // ends when it is killed or leaves
	end      context.CancelFunc
	suspect  *time.Timer // ends when gossip takes a killed agent for failed
}

// gossipFailure is how long after its end a killed agent is taken for failed. On three servers and
// six agents with Consul's default settings it was 5.5 to 7.3 s.
const gossipFailure = 7 * time.Second

func (s *Server) newAgent(name, address string) *Agent {
	a := &Agent{s: s, name: name, id: newUUID(), address: address, gossip: gossipAlive,
		services: make(map[string]*service), checks: make(map[string]*localCheck)}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// AddAgent adds a node with an agent. It panics if there is one of that name: it is for tests.
func (s *Server) AddAgent(name string) *Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		if fold(a.name) == fold(name) {
			panic(fmt.Sprintf("devconsul: there is an agent %q", name))
		}
	}
	a := s.newAgent(name, fmt.Sprintf("10.0.0.%d", len(s.agents)))
	s.agents = append(s.agents, a)
	a.syncAllLocked()
	return a
}

// Name returns the name of the agent's node.
func (a *Agent) Name() string { return a.name }

// RoundTripper is [Server.RoundTripper], by way of this agent.
func (a *Agent) RoundTripper() http.RoundTripper { return byAgent{a} }

// Client returns a client of Consul's own library over RoundTripper.
func (a *Agent) Client() *api.Client { return ClientOver(a.RoundTripper()) }

// Kill ends the agent, as a lost machine does: requests by way of it fail, those under way too, its
// checks stand still, and after 7 s gossip takes the node for failed: the sessions
// that are bound to its serfHealth end. It does nothing to one that is down.
func (a *Agent) Kill() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.isClosed || a.life.Err() != nil {
		return
	}
	a.end()
	a.stop()
	a.suspect = time.AfterFunc(gossipFailure, func() {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		if !a.s.isClosed && a.life.Err() != nil && a.gossip == gossipAlive {
			a.gossip = gossipFailed
			_ = a.registerLocked() // without a leader the next one does it
		}
	})
}

// Leave ends the agent as SIGTERM does to a client agent: its node is deregistered, and all its
// sessions end.
func (a *Agent) Leave() { a.LeaveAfter(0) }

// LeaveAfter is Leave of an agent that goes on answering for a time (Consul's leave_drain_time, 5 s
// by default): its node is deregistered at once, and what it brings into the catalog then makes it
// anew, without serfHealth.
func (a *Agent) LeaveAfter(drain time.Duration) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.isClosed || a.life.Err() != nil {
		return
	}
	a.gossip = gossipLeft
	_ = a.registerLocked()
	stop := func() {
		a.end()
		a.stop()
	}
	if drain <= 0 {
		stop()
		return
	}
	life := a.life
	time.AfterFunc(drain, func() {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		if !a.s.isClosed && life.Err() == nil {
			stop()
		}
	})
}

// Start brings a killed agent, or one that has left, back with the data on its disk: its services,
// and of each check the last report, as long as that has not expired; a check without one is
// critical.
func (a *Agent) Start() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.isClosed || a.life.Err() == nil {
		return
	}
	a.stop()
	a.life, a.end = context.WithCancel(context.Background())
	a.gossip = gossipAlive
	for _, c := range a.checks {
		if !time.Now().Before(c.expires) {
			c.Status, c.Output = statusCritical, ""
		}
		c.reported = ""
		a.startTTLLocked(c)
	}
	a.syncAllLocked()
}

// meta is the metadata of the agent's node.
func (a *Agent) meta() map[string]string {
	return map[string]string{"consul-network-segment": "", "consul-version": version}
}

func (a *Agent) isServer() bool { return a == a.s.agents[0] }

func (a *Agent) stop() {
	for _, c := range a.checks {
		c.stop()
	}
	if a.suspect != nil {
		a.suspect.Stop()
	}
}

// forgetAgentsLocked takes the agents' own records away; their nodes stay.
func (s *Server) forgetAgentsLocked() {
	for _, a := range s.agents {
		a.stop()
		a.services, a.checks = make(map[string]*service), make(map[string]*localCheck)
	}
}

// registerLocked writes the node to the catalog, as a leader does by what gossip says of it.
func (a *Agent) registerLocked() error {
	s := a.s
	return s.applyLocked(func(w *writeTxn) error {
		if a.gossip == gossipLeft {
			w.log(CommitOp{Verb: "deregister", Key: a.name}, true, nil)
			w.deleteNode(a.name)
			return nil
		}
		w.log(CommitOp{Verb: "register", Key: a.name}, true, nil)
		w.ensureNode(a.node())
		if a.isServer() {
			err := w.ensureService(service{
				Node: a.name, ID: "consul", Service: "consul", Port: serverPort,
				Weights: weights{1, 1},
				Meta:    map[string]string{"version": version},
			})
			if err != nil {
				return err
			}
		}
		serf := check{Node: a.name, CheckID: serfCheckID, Name: "Serf Health Status",
			Status: statusPassing, Output: "Agent alive and reachable",
			Definition: noDefinition}
		if a.gossip == gossipFailed {
			serf.Status, serf.Output = statusCritical, "Agent not live or unreachable"
		}
		return w.ensureCheck(serf)
	})
}

// node is the agent's node, as the catalog has it.
func (a *Agent) node() node {
	return node{
		ID: a.id, Node: a.name, Address: a.address, Datacenter: a.s.cfg.Datacenter,
		TaggedAddresses: map[string]string{"lan": a.address, "lan_ipv4": a.address,
			"wan": a.address, "wan_ipv4": a.address},
		Meta: a.meta(),
	}
}

// syncAgentsLocked writes all that the agents know to the catalog. It does nothing without a
// leader: the next one will ask for it.
func (s *Server) syncAgentsLocked() {
	for _, a := range s.agents {
		a.syncAllLocked()
	}
}

func (a *Agent) syncAllLocked() {
	if a.s.isClosed || !a.s.leadership.Load().applies() || a.registerLocked() != nil ||
		a.life.Err() != nil {
		return
	}
	for _, svc := range a.services {
		a.syncServiceLocked(svc)
	}
	for _, c := range a.checks {
		a.syncCheckLocked(c)
	}
}

func (a *Agent) syncServiceLocked(svc *service) {
	a.syncLocked(func(w *writeTxn) error { return w.ensureService(*svc) })
}

func (a *Agent) syncCheckLocked(c *localCheck) {
	a.syncLocked(func(w *writeTxn) error { return w.ensureCheck(c.check) })
}

// syncLocked writes to the catalog for the agent. A failure is not the caller's: the agent has
// taken the registration, and writes it when there is a leader again.
func (a *Agent) syncLocked(f func(*writeTxn) error) {
	_ = a.s.applyLocked(func(w *writeTxn) error {
		w.log(CommitOp{Verb: "register", Key: a.name}, true, nil)
		if a.gossip == gossipLeft {
			w.ensureNode(a.node())
		}
		return f(w)
	})
}

// byAgent is the way to the server by an agent. A request learns from its context which one.
type byAgent struct{ a *Agent }

type agentKey struct{}

var errNoAgent = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (b byAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	b.a.s.mu.Lock()
	life := b.a.life
	b.a.s.mu.Unlock()
	if life.Err() != nil {
		return nil, errNoAgent
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), agentKey{}, b.a))
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	resp, err := roundTripper{b.a.s}.RoundTrip(r.Clone(ctx))
	if life.Err() != nil && r.Context().Err() == nil {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return resp, err
}

// agentOf is the agent that a request came by.
func (s *Server) agentOf(r *http.Request) *Agent {
	if a, ok := r.Context().Value(agentKey{}).(*Agent); ok {
		return a
	}
	return s.agents[0]
}
