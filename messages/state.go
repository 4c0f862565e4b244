package messages

import (
	"context"
	"sync/atomic"
)

// State is a conflating, versioned cell: the newest value wins. It has one
// writer by convention (the actor whose state it is) and any number of readers;
// several writers are safe, the last one wins.
//
// An atomic pointer to {value, version, channel closed on replacement} costs
// the publisher the same whether one or a hundred readers exist, where a fan-out
// over channels grows with their number.
//
// The zero State holds the zero T.
type State[T any] struct {
	now atomic.Pointer[version[T]] // nil: the zero State has not been used yet
}

type version[T any] struct {
	value    T
	number   uint64
	replaced chan struct{}
	past     chan struct{} // closed: what Changed answers for a value not yet seen
}

// NewState returns a cell that holds initial as its first value.
func NewState[T any](initial T) *State[T] {
	s := &State[T]{}
	s.now.Store(first(initial))
	return s
}

func first[T any](value T) *version[T] {
	v := &version[T]{value: value, number: 1, replaced: make(chan struct{}),
		past: make(chan struct{})}
	close(v.past)
	return v
}

func (s *State[T]) load() *version[T] {
	if v := s.now.Load(); v != nil {
		return v
	}
	var zero T
	s.now.CompareAndSwap(nil, first(zero))
	return s.now.Load()
}

// Set replaces the value. It never blocks.
func (s *State[T]) Set(value T) {
	next := &version[T]{value: value, replaced: make(chan struct{})}
	for {
		old := s.load()
		next.number, next.past = old.number+1, old.past
		if s.now.CompareAndSwap(old, next) {
			close(old.replaced)
			return
		}
	}
}

// Get returns the current value.
func (s *State[T]) Get() T { return s.load().value }

// Reader returns the side of the cell that cannot write.
func (s *State[T]) Reader() Reader[T] { return Reader[T]{s} }

// Subscribe returns a cursor that has seen nothing yet.
func (s *State[T]) Subscribe() *Cursor[T] { return &Cursor[T]{state: s} }

// Reader reads a State and cannot change it. The zero Reader is not usable: it
// comes from [State.Reader].
type Reader[T any] struct{ state *State[T] }

// Get returns the current value.
func (r Reader[T]) Get() T { return r.state.Get() }

// Subscribe returns a cursor that has seen nothing yet: its first Next answers
// at once, with the current value.
func (r Reader[T]) Subscribe() *Cursor[T] { return r.state.Subscribe() }

// Wait returns the first value, from the current one on, that ok accepts; or the zero T and the
// context's error. A value that is there when the context has ended counts. Values that come and go
// while ok runs may be missed.
func (r Reader[T]) Wait(ctx context.Context, ok func(T) bool) (T, error) {
	cursor := r.Subscribe()
	for {
		over := ctx.Err()
		if value := cursor.Take(); ok(value) {
			return value, nil
		}
		if over != nil {
			var zero T
			return zero, over
		}
		select {
		case <-cursor.Changed():
		case <-ctx.Done():
		}
	}
}

// Cursor is one subscriber's place in a State. It belongs to one goroutine. It
// needs no closing: nothing in the cell knows of it. The zero Cursor is not usable: it comes from
// Subscribe.
type Cursor[T any] struct {
	state *State[T]
	seen  uint64
}

// Changed returns a channel that is closed once there is a value that this
// cursor has not taken: for select loops, with Take in the case. Ask for it anew
// in each round.
func (c *Cursor[T]) Changed() <-chan struct{} {
	v := c.state.load()
	if v.number != c.seen {
		return v.past
	}
	return v.replaced
}

// Take returns the newest value and marks it seen.
func (c *Cursor[T]) Take() T {
	v := c.state.load()
	c.seen = v.number
	return v.value
}

// Next waits for a value that this cursor has not taken and takes it. The first
// call answers at once. It returns the zero T and the context's error when the
// context has ended, whatever values there are, so that a loop of it ends: none of them is taken.
func (c *Cursor[T]) Next(ctx context.Context) (T, error) {
	select {
	case <-c.Changed():
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		var zero T
		return zero, err
	}
	return c.Take(), nil
}
