package simulation_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/history"
)

// die records that p was killed. Where a guard ends its commands they outlive it: each takes its
// time, at most until the lease is over, and says so itself. Without one, and of a process that
// stood still, all ends at once. p.mu is held.
func (p *process) die() {
	w := p.w
	p.buried = make(chan struct{})
	if !w.plan.settings.guarded || p.thawed != nil || len(p.running) == 0 {
		w.rec.Add(history.Event{Verb: history.End, Proc: p.name()})
		close(p.buried)
		return
	}
	w.rec.Add(history.Event{Verb: history.Dead, Proc: p.name()})
	p.orphans = len(p.running)
	for _, id := range slices.Sorted(maps.Keys(p.running)) {
		r := rand.New(rand.NewPCG(w.plan.seed, hash(p.name()+id+" is an orphan")))
		takes := time.Duration(r.IntN(200)) * time.Millisecond
		if r.IntN(4) == 0 {
			takes = time.Duration(r.IntN(10_000)) * time.Millisecond
		}
		stop := history.Event{Verb: history.Stop, Proc: p.name(), Item: id, Token: p.running[id]}
		lease := p.leaseOf(p.under[id]).Left(time.Now()) - max(p.margin, 200*time.Millisecond)
		w.later(func() {
			time.Sleep(min(takes, lease))
			p.mu.Lock()
			defer p.mu.Unlock()
			w.rec.Add(stop)
			if p.orphans--; p.orphans == 0 {
				w.rec.Add(history.Event{Verb: history.End, Proc: p.name()})
				close(p.buried)
			}
		})
	}
}

// takeSession takes in what has become of the session.
func (p *process) takeSession(s facts.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ID != p.session.ID && p.session.ID != "" {
		p.before = p.session
	}
	p.session = s
}

// leaseOf is the lease by which the guard lets work run that began under a session. Another session
// that its owner has opened since prolongs nothing. p.mu is held.
func (p *process) leaseOf(session string) facts.Lease {
	for _, s := range []facts.Session{p.member.Session().Get(), p.session, p.before} {
		if s.ID == session {
			return s.Lease
		}
	}
	return facts.Lease{}
}
