package onconsul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/store"
)

func (b *backend) Candidates(ctx context.Context) ([]election.Candidate, error) {
	entries, _, err := b.conn.store.List(ctx, b.keys.candidates(), store.Consistent)
	if err != nil {
		return nil, err
	}
	return b.keys.queue(entries), nil
}

// again calls f until it succeeds, fails for good, or ctx ends. A refused transaction means that
// the keys changed after f had read them.
func (b *backend) again(ctx context.Context, what string, f func(context.Context) error) error {
	pause := store.NewLadder()
	for {
		err := b.conn.store.RetryUnlessDenied(ctx, what, f)
		if !errors.Is(err, store.ErrRefused) {
			return err
		}
		if !store.Pause(ctx, pause.NextBackOff()) {
			return fmt.Errorf("%s of %s: %w", what, b.name, err)
		}
	}
}

func (b *backend) HandOver(ctx context.Context, id string, from uint64) error {
	var unheard *snapshot // what the first try found whose outcome is unknown
	return b.again(ctx, "hand-over", func(ctx context.Context) error {
		s, err := b.readCandidate(ctx, id, "")
		to := s.own
		switch {
		case err != nil:
			return err
		case s.endedError() != nil:
			return s.endedError()
		case unheard != nil && (s.leader.CreateIndex != unheard.leader.CreateIndex ||
			s.handOverIndex != unheard.handOverIndex):
			// The leader that was asked has gone, or there is an order since. That try has given it,
			// or it might as well have come before what has happened: another would hit a leader
			// that nobody meant, or undo a later order.
			return nil
		case s.vacant(), from != 0 && s.leader.CreateIndex != from:
			return fmt.Errorf("hand-over of %s: %w: nothing is to be handed over", b.name,
				election.ErrNoLeader)
		case to.CreateIndex == 0 || to.Session == "":
			return fmt.Errorf("hand-over of %s: %w: nobody has the id %s", b.name,
				election.ErrNoCandidate, id)
		case s.currentLeader().ID == id:
			return nil
		}
		r, _ := parseRecord(to)
		_, err = b.conn.store.Txn(ctx, store.CheckIndex(b.keys.leader(), s.leader.ModifyIndex),
			store.CheckIndex(to.Key, to.ModifyIndex),
			store.CAS(b.keys.handover(),
				encode(handOverOrder{To: id, Name: r.Name, HoldBack: b.conn.cfg.HoldBack}), 0,
				s.handOverIndex))
		if unheard == nil && store.OutcomeUnknown(err) {
			unheard = &s.snapshot
		}
		return err
	})
}

func (b *backend) End(ctx context.Context) error {
	_, err := b.end(ctx, 0, false)
	return err
}

// end writes the key ended. incarnation names the election; 0 stands for the one that exists, which
// is created if need be. It returns the election's incarnation.
func (b *backend) end(ctx context.Context, incarnation uint64, deleted bool) (uint64, error) {
	err := b.again(ctx, "end", func(ctx context.Context) error {
		find := b.ensureElection
		if incarnation != 0 {
			find = b.readCandidate
		}
		s, err := find(ctx, "", "")
		if incarnation == 0 {
			incarnation = s.identity.CreateIndex
		}
		switch {
		case err != nil:
			return err
		case s.identity.CreateIndex != incarnation:
			return fmt.Errorf(
				"end of %s: %w meanwhile; if there is another one of that name, it goes on", b.name,
				election.ErrDeleted)
		case s.ended != nil && (s.ended.Deleted || !deleted):
			return nil
		}
		// The first condition refuses a late request, which would hit a new election of this name.
		_, err = b.conn.store.Txn(ctx, store.CheckIndex(b.keys.identity(), s.identity.ModifyIndex),
			store.CAS(b.keys.ended(), encode(ending{Deleted: deleted, At: time.Now()}), 0,
				s.endedAt))
		return err
	})
	return incarnation, err
}

func (b *backend) Delete(ctx context.Context) error {
	entries, _, err := b.list(ctx)
	// A connection with another prefix may have an election below this one's name.
	entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return !b.keys.holds(e.Key) })
	if err != nil || len(entries) == 0 {
		return err
	}
	incarnation := b.keys.parse(entries, 0).incarnation
	if i := slices.IndexFunc(entries, b.keys.strange); i >= 0 && incarnation == 0 {
		return fmt.Errorf("delete %s: %w: there is no such election, and the key %s is none of an "+
			"election's; give the prefix that the election is below",
			b.name, election.ErrInvalid, entries[i].Key)
	}
	if incarnation, err = b.end(ctx, incarnation, true); errors.Is(err, election.ErrDeleted) {
		return nil // another was quicker
	} else if err != nil {
		return err
	}
	watch := b.conn.store.WatchPrefix(b.keys.state())
	leader, term, free := "", uint64(0), time.Time{}
	for {
		var view store.View
		err := b.conn.store.RetryUnlessDenied(ctx, "delete", func(ctx context.Context) (err error) {
			view, err = watch.Next(ctx)
			return err
		})
		if err != nil {
			if leader != "" {
				err = fmt.Errorf("%w: %s still leads; the election stays ended, delete it again "+
					"when it has stopped",
					err, leader)
			}
			return fmt.Errorf("delete %s: %w", b.name, err)
		}
		s := b.keys.parse(view.Entries, view.Index)
		switch {
		case s.incarnation == incarnation && s.ended == nil:
			// Consul was restored from a moment before: all that has happened since has not.
			_, err := b.end(ctx, incarnation, true)
			if errors.Is(err, election.ErrDeleted) {
				return nil
			} else if err != nil {
				return err
			}
			leader, free = "", time.Time{}
			continue
		case s.incarnation != 0 && s.incarnation != incarnation, s.ended == nil:
			return nil // another was quicker, and there may be another election of that name
		}
		if !s.vacant() {
			leader, free = s.currentLeader().Name, time.Time{}
			continue
		}
		// A leader that did not release may not know yet that it has lost the leadership. So Delete
		// waits for its lock-delay: without the term, nothing would hold back the first leader of
		// the next election of this name. Consul's own lock-delay is in memory only.
		if free.IsZero() || s.term != term {
			term, free = s.term, time.Now().Add(min(s.lastTerm.LockDelay, store.MaxLockDelay))
		}
		if !store.Pause(ctx, time.Until(free)) {
			return fmt.Errorf("delete %s: %w: its last leader was lost and may be at it still; "+
				"the election stays ended, delete it again",
				b.name, ctx.Err())
		}
		nobody := store.CheckNotExists(b.keys.leader())
		if s.leader.CreateIndex != 0 {
			nobody = store.CheckIndex(b.keys.leader(), s.leader.ModifyIndex)
		}
		// The first condition refuses a late request, which would hit a new election of this name.
		err = b.conn.store.RetryUnlessDenied(ctx, "delete", func(ctx context.Context) error {
			_, err := b.conn.store.Txn(ctx, store.CheckIndex(b.keys.ended(), s.endedAt), nobody,
				store.DeleteTree(b.keys.candidates()), store.DeleteTree(b.keys.joins()),
				store.DeleteTree(b.keys.state()))
			return err
		})
		if !errors.Is(err, store.ErrRefused) {
			return err
		}
		// The keys have changed. Read them again.
		watch = b.conn.store.WatchPrefix(b.keys.state())
	}
}

// list reads all keys of the election.
func (b *backend) list(ctx context.Context) (entries []store.Entry, index uint64, err error) {
	err = b.conn.store.RetryUnlessDenied(ctx, "read the election", func(ctx context.Context) error {
		entries, index, err = b.conn.store.List(ctx, b.keys.root, store.Consistent)
		return err
	})
	return entries, index, err
}
