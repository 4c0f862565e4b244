package simulation_test

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

// hosts are what befalls the machines of members, of which each has an agent of Consul.
var hosts = map[string]script{
	// machine is a machine that is lost with its agent, its member and that one's guard.
	"machine": func(w *world, e episode) []action {
		id := w.plan.ids[e.who[0]]
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil {
					w.agent(p, (*devconsul.Agent).Kill)
					p.lost.Store(true)
					w.kill(p)
				}
			}},
			{e.at + e.dur, func() { w.start(id) }},
		}
	},
	"agent-killed": func(w *world, e episode) []action {
		return w.without(e, (*devconsul.Agent).Kill)
	},
	"agent-left": func(w *world, e episode) []action {
		return w.without(e, (*devconsul.Agent).Leave)
	},
}

// without ends the agents of members, which come back when the episode is over.
func (w *world) without(e episode, end func(*devconsul.Agent)) []action {
	return w.both(e, func(p *process) { w.agent(p, end) }, func(p *process) {
		w.agent(p, (*devconsul.Agent).Start)
	})
}

// agent does something to the agent of a process, if that has one of its own. A twin runs on a host
// without.
func (w *world) agent(p *process, do func(*devconsul.Agent)) {
	if a := w.agents[p.id]; a != nil && !p.twin {
		do(a)
	}
}

// way is how the requests of a process reach Consul.
func (w *world) way(p *process) http.RoundTripper {
	way := w.consul.RoundTripper()
	w.agent(p, func(a *devconsul.Agent) { way = a.RoundTripper() })
	return way
}

// addAgents gives each member's machine an agent, where the plan has them.
func (w *world) addAgents() {
	w.agents = map[string]*devconsul.Agent{}
	for _, id := range w.plan.ids {
		if w.plan.settings.agents {
			w.agents[id] = w.consul.AddAgent("host-" + id)
		}
	}
}

// hosts draws, by dice of its own, whether each member's machine has an agent, and what befalls
// these. Gentle runs have agents that come back before their checks have expired: that costs nobody
// anything.
func (p *plan) hosts() {
	r := rand.New(rand.NewPCG(p.seed, 27))
	if !p.settings.check || r.IntN(2) == 0 {
		return
	}
	switch p.profile {
	case "gentle":
		p.settings.agents = true
		for i, e := range p.episodes {
			if e.kind == "blip" && r.IntN(3) == 0 {
				p.episodes[i].kind = "agent-killed"
			}
		}
	case "hard", "config", "forgetful", "aimed", "laden", "fair":
		p.settings.agents = true
		for range 1 + r.IntN(3) {
			e := episode{
				kind: []string{"machine", "agent-killed", "agent-left"}[r.IntN(3)],
				at:   time.Duration(r.Int64N(int64(p.span))),
				dur:  time.Duration(100+r.IntN(30_000)) * time.Millisecond,
				who:  []int{r.IntN(len(p.ids))}, n: r.IntN(1 << 20),
			}
			if p.profile == "fair" {
				e.kind = "machine"
			}
			p.episodes = append(p.episodes, e)
		}
	}
}
