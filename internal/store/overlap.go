package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Overlap makes calls that do not wait for one another: what has had no answer may never have one,
// and the next call goes over another connection. Make it with [NewOverlap].
type Overlap[T any] struct {
	// Results has what each call came to, unless its context had ended by then. It panics, or ends
	// its goroutine, as the call did.
	Results chan func() T

	pending atomic.Int32
	calls   sync.WaitGroup
}

// NewOverlap makes an Overlap.
func NewOverlap[T any]() *Overlap[T] { return &Overlap[T]{Results: make(chan func() T)} }

// Pending is how many calls have not come back. It grows with a transport that does not heed its
// context.
func (o *Overlap[T]) Pending() int { return int(o.pending.Load()) }

// Go makes a call.
func (o *Overlap[T]) Go(ctx context.Context, call func(context.Context) T) {
	o.pending.Add(1)
	o.calls.Go(func() {
		x := func() (none T) { runtime.Goexit(); return none }
		defer func() { // also after a Goexit, which a transport may call
			o.pending.Add(-1)
			tell(ctx, o.Results, x)
		}()
		x = outcomeOf(func() T { return call(ctx) })
	})
}

// Wait returns when no call is under way any more: after their contexts have ended.
func (o *Overlap[T]) Wait() { o.calls.Wait() }

// outcomeOf calls f. What it returns gives the result, and panics as f did: so a panic in a
// goroutine comes out where its result is asked for, and the supervisor there catches it.
func outcomeOf[T any](f func() T) func() T {
	var x T
	broke := func() (p any) {
		defer func() { p = recover() }()
		x = f()
		return nil
	}()
	return func() T {
		if broke != nil {
			panic(broke)
		}
		return x
	}
}

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
