package member

import (
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// TermsRun is what the term-runner says: what runs of a term.
type TermsRun struct {
	Term uint64 // of the leadership that it acts on; 0: this member does not lead
	Busy bool   // children of a term run, of this one or of an earlier one
	// DutyOver: the host's duty of the term was to end, and has ended.
	DutyOver bool
	// Duties is how many of the host's lead functions have not returned: one, but for those that
	// were abandoned.
	Duties int
}

// TermRunner starts two children when this member's leadership begins: term-<n>, with the watchers
// and the assigner, and lead-<n>, with the host's lead function. It stops them when the leadership
// ends.
//
// They are separate children: a lead function that ignores its context delays only the next lead
// function, never the assigner. The children of a term survive a restart of this actor.
type TermRunner struct {
	*actor.Base
	leadership messages.Reader[facts.Leadership]
	term       func(term uint64) supervisor.Tree
	lease      *LeaseEnforcer
	// dutyEnds is the term whose lead function is to end before the term does.
	dutyEnds messages.Reader[uint64]
	out      *messages.State[TermsRun]

	planner, lead termChild
	duties        []*messages.State[bool] // of each lead function that was started: it runs
}

// NewTermRunner wires the actor; term makes the tree of term-<n>, of actors of package leader.
func NewTermRunner(b *actor.Base, leadership messages.Reader[facts.Leadership],
	term func(term uint64) supervisor.Tree, lease *LeaseEnforcer,
	dutyEnds messages.Reader[uint64], out *messages.State[TermsRun]) *TermRunner {
	return &TermRunner{Base: b, leadership: leadership, term: term, lease: lease,
		dutyEnds: dutyEnds, out: out}
}

// Run is the actor: see [supervisor.Child].
func (a *TermRunner) Run(ctx context.Context) error {
	group := supervisor.Of(ctx)
	leadership, dutyEnds := a.leadership.Subscribe(), a.dutyEnds.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	var begin time.Time // when the lead function may begin
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			last := a.out.Get()
			last.Duties = a.running()
			a.out.Set(last)
			return nil
		case <-leadership.Changed():
		case <-dutyEnds.Changed():
		case <-a.planner.done():
			a.planner = termChild{}
		case <-a.lead.done():
			a.lead = termChild{}
		case <-timer.At(begin):
		}
		l, ends := leadership.Take(), dutyEnds.Take()
		if err := a.Busy(ctx); err != nil {
			return err
		}
		var err error
		if begin, err = a.step(group, l, ends == l.Term); err != nil {
			return fmt.Errorf("starting term %d: %w", l.Term, err)
		}
	}
}

// step brings the children into line with the leadership. ends: the duty is to end. It returns when
// the duty may begin.
func (a *TermRunner) step(group *supervisor.Group, l facts.Leadership, ends bool) (
	begin time.Time, err error) {
	a.planner.stopUnless(l.Term)
	a.lead.stopUnless(l.Term)
	defer func() {
		run := TermsRun{Busy: a.planner.handle != nil || a.lead.handle != nil, Duties: a.running()}
		if l.Role == facts.Leading {
			run.Term, run.DutyOver = l.Term, ends && a.lead.handle == nil
		}
		a.out.Set(run)
	}()
	if l.Role != facts.Leading {
		return time.Time{}, nil
	}
	if a.planner.handle == nil {
		tree := a.term(l.Term)
		a.planner.term = l.Term
		a.planner.handle, err = group.Start(supervisor.Child{
			Name: fmt.Sprintf("term-%d", l.Term), Tree: &tree})
	}
	switch {
	case a.lead.handle != nil && ends:
		a.lead.handle.StopFor(actor.StopDeposed)
	case err != nil, a.lead.handle != nil, a.Lead == nil, ends:
	case !cleared(l):
		return l.ClearAt, nil
	default:
		a.lead.term = l.Term
		a.lead.handle, err = group.Start(supervisor.Child{
			Name: fmt.Sprintf("lead-%d", l.Term), Tree: a.leadTree(l.Session)})
	}
	return time.Time{}, err
}

// running is how many lead functions have not returned.
func (a *TermRunner) running() (n int) {
	for _, d := range a.duties {
		if d.Get() {
			n++
		}
	}
	return n
}

// leadTree runs the host's function in a tree of its own, which never escalates. However often the
// function fails, it is only called again, and the assigner's restarts are counted without it.
func (a *TermRunner) leadTree(session string) *supervisor.Tree {
	duties := a.duties[:0:0]
	for _, d := range a.duties { // those that were abandoned
		if d.Get() {
			duties = append(duties, d)
		}
	}
	runs := messages.NewState(false)
	a.duties = append(duties, runs)
	return &supervisor.Tree{MaxRestarts: -1, Children: []supervisor.Child{
		{Name: "lead", Run: a.duty(session, runs), StopTimeout: a.StopTimeout,
			HealthyAfter: time.Minute},
	}}
}

// duty calls the host's function for as long as the lease holds, whatever becomes of the actors
// that would stop it. Should the lease come back, the session never ended and the leadership
// neither: it is called again.
func (a *TermRunner) duty(session string,
	runs *messages.State[bool]) func(context.Context) error {
	return func(ctx context.Context) error {
		if a.lease.await(ctx, session) != nil {
			return nil // its context has ended
		}
		bound, free := a.lease.bind(ctx, session)
		defer free()
		if leaseEnded(bound) {
			return actor.StopLeaseOver
		}
		runs.Set(true)
		defer runs.Set(false)
		err := hostsOwn(a.Lead(bound))
		if leaseEnded(bound) {
			return actor.StopLeaseOver
		}
		return err
	}
}

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
		o.handle.StopFor(actor.StopDeposed)
	}
}
