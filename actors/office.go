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
	*house
	leadership messages.Reader[messages.Leadership]
	term       func(term uint64) supervisor.Tree
}

func (a *officer) run(ctx context.Context) error {
	group := supervisor.Of(ctx)
	cursor := a.leadership.Subscribe()
	// A restarted officer finds what its predecessor had opened, and closes it
	// unless the term is still the same.
	office, duty := opened{}, opened{}
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
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Changed():
		case <-office.done():
			office = opened{}
		case <-duty.done():
			duty = opened{}
		}
		l := cursor.Take()
		if err := a.took(ctx); err != nil {
			return err
		}
		office.closeUnless(l.Term)
		duty.closeUnless(l.Term)
		if l.Role != messages.Leading {
			continue
		}
		var err error
		if office.handle == nil {
			tree := a.term(l.Term)
			office.term = l.Term
			office.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(termName, l.Term), Tree: &tree})
		}
		if err == nil && duty.handle == nil && a.Lead != nil {
			duty.term = l.Term
			duty.handle, err = group.Start(supervisor.Child{Name: fmt.Sprintf(dutyName, l.Term), Run: a.Lead, StopTimeout: a.StopTimeout, HealthyAfter: time.Minute})
		}
		if err != nil {
			return fmt.Errorf("opening the office of term %d: %w", l.Term, err)
		}
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
