package protocol

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/coordd/coordd/internal/store"
)

// Leaving is what a member that is gone, or on its way, leaves behind in Consul.
type Leaving struct {
	Member  string // its id
	Session string // that its record is locked by
	// Clear: no earlier lease of this id can be valid any more (see [Ack]). Only
	// then may its keys go before a grace is over.
	Clear bool
}

// check refuses what would match a key that no session holds.
func (l Leaving) check() error {
	if err := CheckID("member id", l.Member); err != nil {
		return err
	}
	return store.CheckSessionID("goodbye", l.Session)
}

// Goodbye takes the member's record and its summary away, and if l is clear its keys and its
// ack with it, in one transaction: its items are free at once, and nobody waits for a grace.
// It is one try. [store.ErrRefused]: the record is not the session's (any more), and nothing was
// done.
//
// It may only be said when none of the work that was started under the session is left, and none
// will be started: of a living member by itself, of a dead one by the process that saw all of its
// work end. It may arrive late, and twice: once the session has lost the record, which it does by
// this and before anyone else registers, it changes nothing.
func (s *Store) Goodbye(ctx context.Context, l Leaving) error {
	if err := l.check(); err != nil {
		return err
	}
	var ops []store.Op
	if l.Clear {
		ops = append(ops, store.DeleteTree(s.keys.AssignmentsOf(l.Member)),
			store.Delete(s.keys.Ack(l.Member)))
	}
	return s.leave(ctx, l, ops...)
}

// leave takes the member's record away, with what ops do, and its summary, where the token allows
// that: nobody reads the summary of a member without a record.
func (s *Store) leave(ctx context.Context, l Leaving, ops ...store.Op) error {
	key := s.keys.Member(l.Member)
	ops = slices.Concat([]store.Op{store.CheckSession(key, l.Session)}, ops,
		[]store.Op{store.Delete(key)})
	_, err := s.Txn(ctx, append(slices.Clip(ops), store.Delete(s.keys.State(l.Member)))...)
	if errors.Is(err, store.ErrDenied) {
		_, err = s.Txn(ctx, ops...)
	}
	return err
}

// Pause takes the member's record away and leaves its keys, with an ack that says
// for how long they are to wait for it: a goodbye of one that will be back. The same
// holds as for [Store.Goodbye].
func (s *Store) Pause(ctx context.Context, l Leaving, ack Ack) error {
	if err := l.check(); err != nil {
		return err
	}
	return s.leave(ctx, l, store.Set(s.keys.Ack(l.Member), ack.Encode(), 0))
}

// Depart does for a dead member all that its own clean stop would have done:
// [Store.Goodbye], [Store.Resign], and the end of its session and of its instance. Each is tried
// until Consul has answered or ctx ends; then the session expires by itself. It reports whether the
// goodbye was accepted: if not, the record was not the session's any more, perhaps because of an
// earlier try whose answer was lost.
func (s *Store) Depart(ctx context.Context, l Leaving) (accepted bool, err error) {
	err = store.Retry(ctx, s, "goodbye", func(ctx context.Context) error {
		return s.Goodbye(ctx, l)
	})
	accepted = err == nil
	if err != nil && !errors.Is(err, store.ErrRefused) {
		return false, err
	}
	err = store.Retry(ctx, s, "leader key", func(ctx context.Context) error {
		return s.Resign(ctx, l.Session, AsTheTermSays, true)
	})
	if err == nil {
		s.log.Info("resigned", slog.String("for", l.Member))
	} else if !errors.Is(err, store.ErrRefused) {
		return accepted, err
	}
	return accepted, store.EndSession(ctx, s, l.Session)
}
