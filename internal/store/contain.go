package store

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Contain calls f, which makes calls, in a goroutine of its own, and returns what it returns. A
// host's transport may panic there, or end the goroutine: that is [ErrUnreachable]. It is for calls
// from goroutines that no supervisor watches, where a panic would end the process, and for those
// that nothing rests on. What begins the message. Panics are logged once in 30 s.
func (s *Store) Contain(what string, f func() error) error {
	err := unreachable(what, "the transport ended its goroutine")
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if p := recover(); p != nil {
				err = unreachable(what, "the transport panicked: %s", panicText(p))
				s.link.panicked(what, panicText(p), debug.Stack())
			}
		}()
		err = f()
	}()
	<-over
	return err
}

// panicText is what a panic says, or its type: the methods of a host's own value may panic too.
func panicText(p any) string {
	switch p := p.(type) {
	case string:
		return p
	case interface{ RuntimeError() }: // runtime.Error: Go's own
		return fmt.Sprint(p)
	}
	return fmt.Sprintf("a %T", p)
}

// do makes a call.
func (s *Store) do(ctx context.Context, c call, f func(context.Context) error) error {
	return s.call(ctx, c, s.contain, f)
}

// aside makes a call that nothing rests on, contained: no failure of it is its caller's.
func (s *Store) aside(ctx context.Context, c call, f func(context.Context) error) error {
	return s.call(ctx, c, true, f)
}

// call makes a call, contained or not: all of them come this way.
func (s *Store) call(ctx context.Context, c call, contain bool,
	f func(context.Context) error) error {
	run := f
	if contain {
		run = func(ctx context.Context) error {
			return s.Contain(c.String(), func() error { return f(ctx) })
		}
	}
	if s.observer == nil {
		return c.do(ctx, run)
	}
	return s.observed(ctx, c, run)
}
