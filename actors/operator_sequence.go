package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordd/coordd/internal/store"
)

// sequence is a sequence key of the operators: each of their transactions moves it, so each takes
// effect once at most, and one whose outcome is not known has none any more once a later one was
// applied. The workload and the orders have one each, for all operators of the service.
type sequence struct {
	key  string
	turn chan struct{} // whose turn it is, among the calls of one Operator
	// index is the key's as far as it is known: another operator may have moved it.
	index uint64
	known bool
}

func newSequence(key string) *sequence { return &sequence{key: key, turn: make(chan struct{}, 1)} }

// write applies ops in one transaction that moves q. It is one try, but for the meeting with
// another operator, whose write is waited for.
func (o *Operator) write(ctx context.Context, q *sequence, ops ...store.Op) error {
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return fmt.Errorf("other calls are before it: %w", ctx.Err())
	}
	ops = o.keys.Sign(o.by, ops)
	for ladder := store.NewLadder(); ; {
		if !q.known {
			e, _, _, err := o.store.Get(ctx, q.key, store.Consistent)
			if err != nil {
				return err
			}
			q.index, q.known = e.ModifyIndex, true
		}
		result, err := o.store.Txn(ctx, append(ops[:len(ops):len(ops)],
			store.Advance(q.key, q.index))...)
		if err == nil {
			e, _ := result.Entry(q.key)
			q.index = e.ModifyIndex
			return nil
		}
		q.known = false
		if !errors.Is(err, store.ErrRefused) {
			return err
		}
		if !store.Pause(ctx, ladder.NextBackOff()) {
			return fmt.Errorf("other operators write all the time: %w", ctx.Err())
		}
	}
}
