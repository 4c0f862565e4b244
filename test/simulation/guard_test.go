package simulation_test

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// restartWait is how long a guard waits for a successor of its dead owner.
const restartWait = 500 * time.Millisecond

// mourn is the guard of a process that was killed: it says the goodbye for it, in a weather of its
// own, unless it sees a successor. It sees those that a member of that run would know of. The work
// has ended before.
func (w *world) mourn(p *process, m facts.Membership) {
	if !w.plan.settings.guarded || p.lost.Load() || !m.In(m.Session) {
		return
	}
	ghost := &process{w: w, id: p.id, n: p.n, gone: make(chan struct{})}
	ghost.link = &link{w: w, p: ghost, strayGoodbye: (hash(p.name())+w.plan.seed)%4 == 0}
	p.link.mu.Lock()
	ghost.link.storms = slices.Clone(p.link.storms)
	p.link.mu.Unlock()
	s, err := protocol.New("sim", store.Config{Client: devconsul.ClientOver(ghost.link),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	l := protocol.Leaving{Member: p.id, Session: m.Session, Clear: m.ClearAt.IsZero()}
	if w.mutant != nil && w.mutant.name == "goodbye-not-clear" {
		l.Clear = true
	}
	w.later(func() {
		<-p.buried
		time.Sleep(restartWait)
		if w.plan.settings.knows && w.attended(p) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*w.plan.settings.longest())
		defer cancel()
		said := make(chan struct{})
		go func() {
			defer close(said)
			_, _ = s.Depart(ctx, l) // what it comes to is judged by the history
		}()
		for w.plan.settings.knows && !w.attended(p) {
			select {
			case <-said:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		if w.plan.settings.knows {
			cancel()
		}
		<-said
	})
}

// attended tells whether a later process of p's id lives.
func (w *world) attended(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.all, func(q *process) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.id == p.id && q.n > p.n && !q.dead
	})
}
