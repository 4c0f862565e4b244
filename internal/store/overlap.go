package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// Overlap makes calls that do not wait for one another: what has had no answer may never have one,
// and the next call goes over another connection. Make it with [NewOverlap].
type Overlap[T any] struct {
	// Results has what each call came to, unless its context had ended by then.
	Results chan T

	pending atomic.Int32
	calls   sync.WaitGroup
}

// NewOverlap makes an Overlap.
func NewOverlap[T any]() *Overlap[T] { return &Overlap[T]{Results: make(chan T)} }

// Pending is how many calls have not come back. It grows with a transport that does not heed its
// context.
func (o *Overlap[T]) Pending() int { return int(o.pending.Load()) }

// Go makes a call. A panic in it ends the process.
func (o *Overlap[T]) Go(ctx context.Context, call func(context.Context) T) {
	o.pending.Add(1)
	o.calls.Go(func() {
		x := call(ctx)
		o.pending.Add(-1)
		tell(ctx, o.Results, x)
	})
}

// Wait returns when no call is under way any more: after their contexts have ended.
func (o *Overlap[T]) Wait() { o.calls.Wait() }

// tell sends x to the listener until ctx ends; afterwards another one may listen.
func tell[T any](ctx context.Context, to chan<- T, x T) {
	if ctx.Err() != nil {
		return
	}
	select {
	case to <- x:
	case <-ctx.Done():
	}
}
