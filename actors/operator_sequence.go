package actors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/store"
)

// sequence is a sequence key of the operators: each of their transactions moves it, so each takes
// effect once at most, and one whose outcome is not known has none any more once a later one was
// applied. The workload and the orders have one each, for all operators of the service. Its value
// names the last transactions: a proxy may send one twice, and pass on what comes of the second
// copy, which is refused because the first one was applied.
type sequence struct {
	key  string
	turn chan struct{} // whose turn it is, among the calls of one Operator
	// index is the key's, and names are those in its value, as of the last read. strange: there was
	// something else in it.
	index   uint64
	names   []string
	strange bool
}

// Each transaction has a random name of so many characters, five bits each. The sequence key keeps
// the last ones.
const (
	nameLength = 8
	namesKept  = 128
)

// noName stands for transactions of which nothing is known.
const noName = "AAAAAAAA"

func newSequence(key string) *sequence { return &sequence{key: key, turn: make(chan struct{}, 1)} }

// read brings index and names up to date.
func (q *sequence) read(ctx context.Context, s *store.Store) error {
	e, _, _, err := s.Get(ctx, q.key, store.Consistent)
	if err != nil {
		return err
	}
	all := strings.Fields(string(e.Value))
	q.index, q.names = e.ModifyIndex, slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(s) != nameLength || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != ""
	})
	q.strange = len(q.names) != len(all) || len(all) > namesKept
	q.names = q.names[max(0, len(q.names)-namesKept):]
	return nil
}

// follows tells whether all transactions since those of before are among the names.
func (q *sequence) follows(before []string) bool {
	switch {
	case q.strange: // a coordd without names, or a stranger, has written
		return false
	case len(before) == 0:
		return len(q.names) < namesKept
	}
	return slices.Contains(q.names, before[len(before)-1])
}

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
	name := rand.Text()[:nameLength]
	for ladder := store.NewLadder(); ; {
		// At once before each try, so that few others can come between the two.
		if err := q.read(ctx, o.store.Store); err != nil {
			return err
		}
		before := q.names
		names := append(slices.Clone(before), name)
		if q.strange { // nobody may take these for all that there were
			names = slices.Concat(slices.Repeat([]string{noName}, namesKept), names)
		}
		names = names[max(0, len(names)-namesKept):]
		_, err := o.store.Txn(ctx, append(ops[:len(ops):len(ops)],
			store.CAS(q.key, []byte(strings.Join(names, " ")), 0, q.index))...)
		if !errors.Is(err, store.ErrRefused) {
			return err
		}
		if err := q.read(ctx, o.store.Store); err != nil {
			return err
		}
		switch {
		case slices.Contains(q.names, name):
			return nil
		case !q.follows(before):
			return fmt.Errorf("%w: whether the write was applied is not known: Consul refused it, and "+
				"many others have come since", ErrUnreachable)
		}
		if !store.Pause(ctx, ladder.NextBackOff()) {
			return fmt.Errorf("other operators write all the time: %w", ctx.Err())
		}
	}
}
