package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// orderPause is the pause before an order is tried again, and between two looks at an election that
// is being deleted.
const orderPause = 200 * time.Millisecond

// order calls f until it succeeds, fails for good, or ctx ends.
func (p *Participant) order(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrChanged) && !p.store.Passing(err) ||
			p.Contact().Get().Closed || !pause(ctx, orderPause) {
			if p.Contact().Get().Closed {
				err = election.ErrClosed
			} else if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return fmt.Errorf("%s %s: %w", what, p.Name, err)
		}
	}
}

// Runs reads the record of the runs, and writes it anew. Each writing is on the version of the
// state that was read. So a late copy of it is refused. A leader's needs the leader's record
// besides: an expired session leaves the state as it was.
func (p *Participant) Runs(ctx context.Context, token uint64,
	change func(*election.Runs) bool) (runs election.Runs, err error) {
	err = p.order(ctx, "runs of", func() error {
		r, err := p.store.Read(ctx, "")
		if err != nil {
			return err
		}
		if token != 0 && (!p.known().owns(r) || r.Token != token) {
			return fmt.Errorf("%w with token %d", election.ErrNoLeader, token)
		}
		if runs = r.State.Runs; !change(&runs) {
			return nil
		}
		c := Change{From: r, State: r.write(func(s *State) { s.Runs = runs })}
		if token != 0 {
			c.Leader = Need
		}
		_, err = p.store.Commit(ctx, c)
		return err
	})
	return runs, err
}

// Candidates returns the candidates, the next leader first.
func (p *Participant) Candidates(ctx context.Context) ([]election.Candidate, error) {
	all, err := p.store.Candidates(ctx)
	if err != nil {
		return nil, fmt.Errorf("candidates of %s: %w", p.Name, err)
	}
	return all, nil
}

// HandOver orders the leader to make way for a candidate. When it is not known whether an order was
// given, the next attempt is for the same leader, in the same state. A later one would hit a leader
// that nobody meant, or undo a later order.
func (p *Participant) HandOver(ctx context.Context, id string, from uint64) error {
	var unheard *Reading
	return p.order(ctx, "hand over", func() error {
		r, err := p.store.Read(ctx, id)
		switch {
		case err != nil:
			return err
		case r.Over() != nil:
			return r.Over()
		case unheard != nil && (r.Token != unheard.Token || r.Version != unheard.Version):
			return nil
		case r.Vacant(), from != 0 && r.Token != from:
			return fmt.Errorf("%w: nothing is to be handed over", election.ErrNoLeader)
		case r.Owner == "":
			return fmt.Errorf("%w: nobody has the id %s", election.ErrNoCandidate, id)
		case r.Leader.ID == id:
			return nil
		}
		from = r.Token // who comes after that leader is not meant
		_, err = p.store.Commit(ctx, Change{From: r, To: id, State: r.write(func(s *State) {
			s.HandOver = &HandOver{To: id, HoldBack: p.HoldBack}
		})})
		if err != nil && !errors.Is(err, ErrChanged) && unheard == nil {
			unheard = &r
		}
		return err
	})
}

// End ends the election for everyone: the one that it finds first, or makes.
func (p *Participant) End(ctx context.Context) error {
	var incarnation uint64
	return p.order(ctx, "end", func() error {
		r, err := p.store.Read(ctx, "")
		switch {
		case err != nil:
			return err
		case incarnation != 0 && r.Incarnation != incarnation:
			return fmt.Errorf("%w meanwhile; if there is another one of that name, it goes on",
				election.ErrDeleted)
		case r.Incarnation == 0:
			if err := p.store.Create(ctx); err != nil {
				return err
			}
			return ErrChanged
		case r.Over() != nil:
			return nil
		}
		incarnation = r.Incarnation
		return p.write(ctx, r, Ending{At: time.Now()})
	})
}

func (p *Participant) write(ctx context.Context, r Reading, end Ending) error {
	_, err := p.store.Commit(ctx,
		Change{From: r, State: r.write(func(s *State) { s.Ending = &end })})
	return err
}

// Delete removes the election. It waits for the leader, and for the lock-delay of one that was
// lost: the state goes, and nothing else would hold back the first leader of the next election of
// this name. A store that was restored may have forgotten the order: then it is given again.
func (p *Participant) Delete(ctx context.Context) error {
	var incarnation uint64 // of the election that is to be deleted
	var free vacancy
	for {
		var leader string
		var left time.Duration
		err := p.order(ctx, "delete", func() error {
			r, err := p.store.Read(ctx, "")
			switch {
			case err != nil:
				return err
			case r.Incarnation == 0, incarnation != 0 && r.Incarnation != incarnation:
				incarnation = 0 // it is gone; if there is another of that name, it goes on
				return nil
			case !errors.Is(r.Over(), election.ErrDeleted):
				incarnation = r.Incarnation
				if err := p.write(ctx, r, Ending{Deleted: true, At: time.Now()}); err != nil {
					return err
				}
				return ErrChanged
			}
			incarnation = r.Incarnation
			if leader, left = r.Leader.Name, orderPause; !r.Vacant() {
				free.see(r, time.Now())
				return nil
			}
			if leader, left = "", time.Until(free.see(r, time.Now())); left > 0 {
				return nil
			}
			if err := p.store.Remove(ctx, r); err != nil {
				return err
			}
			incarnation = 0
			return nil
		})
		switch {
		case err != nil || incarnation == 0:
			return err
		case pause(ctx, min(left, orderPause)):
			continue
		case leader != "":
			return fmt.Errorf("delete %s: %w: %s still leads; the election stays ended, delete it "+
				"again when it has stopped", p.Name, ctx.Err(), leader)
		}
		return fmt.Errorf("delete %s: %w: its last leader was lost and may be at it still; the "+
			"election stays ended, delete it again", p.Name, ctx.Err())
	}
}
