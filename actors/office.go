package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// officer opens the leader's office when this member's leadership begins and
// closes it when it ends: the watchers and the assigner of one term, and the
// host's own function for the leader's duty.
//
// The two are separate children: a host's function that does not stop with its
// leadership keeps only the next one from starting, never the assigner.
type officer struct {
	*base
	leadership messages.Reader[messages.Leadership]
	term       func(term uint64) supervisor.Tree
}

func (a *officer) run(ctx context.Context) error {
	group := supervisor.Of(ctx)
	cursor := a.leadership.Subscribe()
	// A restarted officer finds what its predecessor had opened, and closes it
	// unless the term is still the same.
	office, duty := opened{}, opened{}
	var timer alarm
	defer timer.stop()
	var begin time.Time // when the duty may begin
	for _, name := range group.Names() {
		var term uint64
		if n, _ := fmt.Sscanf(name, termName, &term); n == 1 {
			office.handle, _ = group.Child(name)
			office.term = term
		} else if n, _ := fmt.Sscanf(name, dutyName, &term); n == 1 {
			duty.handle, _ = group.Child(name)
			duty.term = term
		}
	}
	for {
		a.rests(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Changed():
		case <-office.done():
			office = opened{}
		case <-duty.done():
			duty = opened{}
		case <-timer.at(begin):
		}
		l := cursor.Take()
		if err := a.took(ctx); err != nil {
			return err
		}
		office.closeUnless(l.Term)
		duty.closeUnless(l.Term)
		begin = time.Time{}
		if l.Role != messages.Leading {
			continue
		}
		var err error
		if office.handle == nil {
			tree := a.term(l.Term)
			office.term = l.Term
			office.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(termName, l.Term),
				Tree: &tree})
		}
		if err == nil && duty.handle == nil && a.Lead != nil && !cleared(l) {
			begin = l.ClearAt
		} else if err == nil && duty.handle == nil && a.Lead != nil {
			duty.term = l.Term
			duty.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(dutyName, l.Term),
				Tree: a.duty(l.Session)})
		}
		if err != nil {
			return fmt.Errorf("opening the office of term %d: %w", l.Term, err)
		}
	}
}

// duty runs the host's function in a tree of its own, which never escalates: however often it
// fails, it is only called again, and the assigner's restarts are counted without it.
func (a *officer) duty(session string) *supervisor.Tree {
	return &supervisor.Tree{MaxRestarts: -1, Children: []supervisor.Child{
		{Name: "lead", Run: a.lead(session), StopTimeout: a.StopTimeout, HealthyAfter: time.Minute},
	}}
}

// lead calls the host's function for as long as the lease holds, whatever becomes of the actors
// that would stop it. Should the lease come back, the session never ended and the leadership
// neither: it is called again.
func (a *officer) lead(session string) func(context.Context) error {
	return func(ctx context.Context) error {
		if a.leaseEnforcer.await(ctx, session) != nil {
			return nil // its context has ended
		}
		bound, free := a.leaseEnforcer.bind(ctx, session)
		defer free()
		if leaseEnded(bound) {
			return errLeaseOver
		}
		a.leads.Add(1)
		defer a.leads.Add(-1)
		err := a.Lead(bound)
		if leaseEnded(bound) {
			return errLeaseOver
		}
		return err
	}
}

const (
	termName = "term-%d"
	dutyName = "lead-%d"
)

// opened is a part of the office that was opened for a term. The next term's is
// opened when it has really ended.
type opened struct {
	handle *supervisor.Handle
	term   uint64
}

func (o opened) done() <-chan struct{} {
	if o.handle == nil {
		return nil
	}
	return o.handle.Done()
}

func (o opened) closeUnless(term uint64) {
	if o.handle != nil && o.term != term {
		o.handle.Stop()
	}
}
