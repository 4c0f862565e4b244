package member

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// TermRunner starts two children when this member's leadership begins: term-<n>, with the watchers
// and the assigner, and lead-<n>, with the host's lead function. It stops them when the leadership
// ends.
//
// They are separate children: a lead function that ignores its context delays only the next lead
// function, never the assigner.
type TermRunner struct {
	*actor.Base
	leadership messages.Reader[messages.Leadership]
	term       func(term uint64) supervisor.Tree
	lease      *LeaseEnforcer
	// leads is how many of the host's lead functions run: one, but for those that were abandoned.
	leads *atomic.Int32
	// dutyEnds is the term whose lead function is to end before the term does.
	dutyEnds messages.Reader[uint64]
	out      *messages.State[TermsRun]
}

// NewTermRunner wires the actor; term makes the tree of term-<n>.
func NewTermRunner(b *actor.Base, leadership messages.Reader[messages.Leadership],
	term func(term uint64) supervisor.Tree, lease *LeaseEnforcer,
	leads *atomic.Int32, dutyEnds messages.Reader[uint64],
	out *messages.State[TermsRun]) *TermRunner {
	return &TermRunner{Base: b, leadership: leadership, term: term, lease: lease, leads: leads,
		dutyEnds: dutyEnds, out: out}
}

// Run is the actor: see [supervisor.Child].
func (a *TermRunner) Run(ctx context.Context) error {
	group := supervisor.Of(ctx)
	cursor, dutyEnds := a.leadership.Subscribe(), a.dutyEnds.Subscribe()
	// A restarted TermRunner finds the children of its last incarnation. It stops those of another
	// term.
	planner, lead := termChild{}, termChild{}
	var timer actor.Timer
	defer timer.Stop()
	var begin time.Time // when the lead function may begin
	for _, name := range group.Names() {
		var term uint64
		if n, _ := fmt.Sscanf(name, termName, &term); n == 1 {
			planner.handle, _ = group.Child(name)
			planner.term = term
		} else if n, _ := fmt.Sscanf(name, leadName, &term); n == 1 {
			lead.handle, _ = group.Child(name)
			lead.term = term
		}
	}
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Changed():
		case <-dutyEnds.Changed():
		case <-planner.done():
			planner = termChild{}
		case <-lead.done():
			lead = termChild{}
		case <-timer.At(begin):
		}
		l := cursor.Take()
		ends := dutyEnds.Take() == l.Term
		if err := a.Busy(ctx); err != nil {
			return err
		}
		planner.stopUnless(l.Term)
		lead.stopUnless(l.Term)
		begin = time.Time{}
		if l.Role != messages.Leading {
			a.out.Set(TermsRun{Busy: planner.handle != nil || lead.handle != nil})
			continue
		}
		var err error
		if planner.handle == nil {
			tree := a.term(l.Term)
			planner.term = l.Term
			planner.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(termName, l.Term),
				Tree: &tree})
		}
		switch {
		case lead.handle != nil && ends:
			lead.handle.Stop()
		case err != nil, lead.handle != nil, a.Lead == nil, ends:
		case !cleared(l):
			begin = l.ClearAt
		default:
			lead.term = l.Term
			lead.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(leadName, l.Term),
				Tree: a.leadTree(l.Session)})
		}
		if err != nil {
			return fmt.Errorf("starting term %d: %w", l.Term, err)
		}
		a.out.Set(TermsRun{Term: l.Term, Busy: true, DutyOver: ends && lead.handle == nil})
	}
}

// leadTree runs the host's function in a tree of its own, which never escalates. However often the
// function fails, it is only called again, and the assigner's restarts are counted without it.
func (a *TermRunner) leadTree(session string) *supervisor.Tree {
	return &supervisor.Tree{MaxRestarts: -1, Children: []supervisor.Child{
		{Name: "lead", Run: a.lead(session), StopTimeout: a.StopTimeout, HealthyAfter: time.Minute},
	}}
}

// lead calls the host's function for as long as the lease holds, whatever becomes of the actors
// that would stop it. Should the lease come back, the session never ended and the leadership
// neither: it is called again.
func (a *TermRunner) lead(session string) func(context.Context) error {
	return func(ctx context.Context) error {
		if a.lease.await(ctx, session) != nil {
			return nil // its context has ended
		}
		bound, free := a.lease.bind(ctx, session)
		defer free()
		if leaseEnded(bound) {
			return errLeaseOver
		}
		a.leads.Add(1)
		defer a.leads.Add(-1)
		err := hostsOwn(a.Lead(bound))
		if leaseEnded(bound) {
			return errLeaseOver
		}
		return err
	}
}

const (
	termName = "term-%d"
	leadName = "lead-%d"
)

// termChild is a child that was started for a term. The child of the next term starts when this one
// has really ended.
type termChild struct {
	handle *supervisor.Handle
	term   uint64
}

func (o termChild) done() <-chan struct{} {
	if o.handle == nil {
		return nil
	}
	return o.handle.Done()
}

func (o termChild) stopUnless(term uint64) {
	if o.handle != nil && o.term != term {
		o.handle.Stop()
	}
}
