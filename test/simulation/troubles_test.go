package simulation_test

import (
	"slices"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/hashicorp/consul/api"
)

// troubles are what befalls members, and what members and users do.
var troubles = map[string]script{
	"freeze": func(w *world, e episode) []action {
		return w.both(e, func(p *process) { p.freeze() }, (*process).thaw)
	},
	"kill": func(w *world, e episode) []action {
		return []action{
			{e.at, func() { w.each(e.who, func(p *process) { w.doom(p, e.how) }) }},
			{e.at + e.dur, func() { w.start(w.plan.ids[e.who[0]]) }},
		}
	},
	"takeover": func(w *world, e episode) []action {
		id := ""
		return []action{
			{e.at, func() { w.addWork(1 + e.n); w.removeWork(e.n) }},
			{e.at + time.Duration(e.n*37)*time.Millisecond, func() {
				if p := w.leader(); p != nil {
					id = p.id
					w.doom(p, e.how)
				}
			}},
			{e.at + e.dur, func() {
				if id != "" {
					w.start(id)
				}
			}},
		}
	},
	"leave": func(w *world, e episode) []action {
		id := w.plan.ids[e.who[0]]
		return []action{
			{e.at, func() {
				if p := w.proc(id); p != nil {
					w.stop(p)
				}
			}},
			{e.at + e.dur, func() {
				if e.n%4 == 0 && e.who[0] != 0 {
					w.left[id] = true
					return
				}
				delete(w.left, id)
				w.start(id)
			}},
		}
	},
	"destroy": func(w *world, e episode) []action {
		return once(e, func() { w.each(e.who, w.destroy) })
	},
	"orphan": func(w *world, e episode) []action {
		return w.both(e, func(p *process) {
			p.link.set("deaf")
			w.early(p)
			w.stranger(&api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVDelete, Key: w.root + "members/" +
				p.id}})
		}, func(p *process) { p.link.unset("deaf") })
	},
	"work": func(w *world, e episode) []action {
		return once(e, func() {
			if e.how != "remove" {
				w.addWork(e.n)
			}
			if w.plan.settings.changes {
				w.changeWork(e.n)
			}
			if e.how != "add" {
				w.removeWork(e.n)
			}
		})
	},
	// gone is a member that goes for good; the first one stays.
	"gone": func(w *world, e episode) []action {
		i := max(1, e.who[0])
		return once(e, func() {
			w.left[w.plan.ids[i]] = true
			w.each([]int{i}, func(p *process) {
				if e.how == "kill" {
					w.kill(p)
				} else {
					w.stop(p)
				}
			})
		})
	},
	// rollout restarts one member after the other; dur is how long each is away.
	"rollout": func(w *world, e episode) []action {
		var acts []action
		at := e.at
		for i, id := range w.plan.ids {
			acts = append(acts, action{at, func() { w.each([]int{i}, w.stop) }},
				action{at + e.dur, func() {
					if !w.left[id] {
						w.start(id)
					}
				}})
			at += e.dur + time.Duration(500+e.n%5000)*time.Millisecond
		}
		return acts
	},
	// stubborn is work that ignores the order to stop, fails as soon as it has begun, or panics
	// then.
	"stubborn": func(w *world, e episode) []action {
		is := func(how string) func(*process) {
			return func(p *process) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.stubborn = how
			}
		}
		return w.both(e, is(e.how), is(""))
	},
	"twin": func(w *world, e episode) []action {
		var p *process
		return []action{
			{e.at, func() {
				w.mu.Lock()
				p = w.newProcess(w.plan.ids[e.who[0]], true)
				w.mu.Unlock()
			}},
			{e.at + e.dur, func() { w.kill(p) }},
		}
	},
}

// doom kills p around its next write, or after five seconds without one.
func (w *world) doom(p *process, how string) {
	if how == "now" {
		w.kill(p)
		return
	}
	p.mu.Lock()
	p.death = how
	p.mu.Unlock()
	w.later(func() {
		select {
		case <-p.gone:
		case <-time.After(5 * time.Second):
			w.kill(p)
		}
	})
}

// early writes down that what follows is none of p's doing.
func (w *world) early(p *process) { p.note(history.Event{Verb: history.Early}) }

// endedByCheck takes in that a session has ended with the health check of its process, or with its
// node: early, if that process lives.
func (w *world) endedByCheck(session string) {
	w.mu.Lock()
	procs := slices.Clone(w.all)
	w.mu.Unlock()
	for _, p := range procs {
		if p.member.Session().Get().ID == session {
			w.early(p)
		}
	}
}

// takesNoReports tells whether the agents have stopped to take reports to checks, as they do when a
// token loses a right. That is no fault that ends, and members get on without.
func (w *world) takesNoReports() bool {
	from := w.noReports.Load()
	return from != 0 && time.Now().UnixNano() > from
}

// destroy ends p's session, as an operator or a leaving agent does.
func (w *world) destroy(p *process) {
	if id := p.member.Session().Get().ID; id != "" {
		w.early(p)
		w.client.Session().Destroy(id, nil)
	}
}
