// Package linearizable tells whether one object explains what its callers have seen (Herlihy and
// Wing, "Linearizability: A Correctness Condition for Concurrent Objects", ACM TOPLAS 12(3), 1990).
//
// The search is the one of Wing and Gong, with the states remembered that it has been in (Lowe,
// "Testing for linearizability", Concurrency and Computation 29(4), 2017).
package linearizable

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"
	"time"
)

// Operation is one of the object. It took effect at one instant from its call to its return.
type Operation[O any] struct {
	Op           O
	Call, Return int64
}

var (
	// ErrNone means that no order of the operations makes sense.
	ErrNone = errors.New("no order of the operations makes sense")
	// ErrLimit means that the search was not over in time.
	ErrLimit = errors.New("no verdict in time")
)

// Check looks for an order of all operations in which each takes effect between its call and its
// return, and makes sense to the object: step says whether it does in a state, and what the state
// is then. The order returned is the longest that was found.
func Check[S comparable, O any](history []Operation[O], start S, step func(S, O) (S, bool),
	limit time.Duration) ([]O, error) {
	s := &search[S, O]{step: step, history: slices.Clone(history), until: time.Now().Add(limit),
		seen: map[position[S]]bool{}}
	slices.SortStableFunc(s.history, func(a, b Operation[O]) int {
		return cmp.Compare(a.Call, b.Call)
	})
	whole := s.from(start, 0)
	order := make([]O, len(s.longest))
	for i, at := range s.longest {
		order[i] = s.history[at].Op
	}
	switch {
	case whole:
		return order, nil
	case time.Now().After(s.until):
		return order, ErrLimit
	}
	return order, ErrNone
}

type search[S comparable, O any] struct {
	step    func(S, O) (S, bool)
	history []Operation[O] // by their calls
	until   time.Time
	done    big.Int // the operations of order, as bits
	order   []int
	longest []int
	seen    map[position[S]]bool
}

// position is what the rest of the search depends on.
type position[S comparable] struct {
	done  string
	state S
}

// from goes on from a state. All operations below first are done.
func (s *search[S, O]) from(state S, first int) bool {
	if len(s.order) > len(s.longest) {
		s.longest = append(s.longest[:0], s.order...)
	}
	for first < len(s.history) && s.done.Bit(first) == 1 {
		first++
	}
	if first == len(s.history) {
		return true
	}
	ends := int64(math.MaxInt64) // the first return of what is not done
	for i := first; i < len(s.history) && s.history[i].Call <= ends; i++ {
		if s.done.Bit(i) == 1 {
			continue
		}
		ends = min(ends, s.history[i].Return)
		next, fits := s.step(state, s.history[i].Op)
		if !fits {
			continue
		}
		s.done.SetBit(&s.done, i, 1)
		at := position[S]{string(s.done.Bytes()), next}
		if !s.seen[at] && time.Now().Before(s.until) {
			s.seen[at] = true
			s.order = append(s.order, i)
			if s.from(next, first) {
				return true
			}
			s.order = s.order[:len(s.order)-1]
		}
		s.done.SetBit(&s.done, i, 0)
	}
	return false
}
