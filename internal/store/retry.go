package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The retry ladder: quick at first, because most failures are an election,
// then gentle, for ever.
var rungs = [...]time.Duration{
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second,
}

// deniedPause is how often a denied call is tried again: someone has to act.
const deniedPause = 5 * time.Second

// Ladder is a backoff.BackOff that waits 50 ms, 100 ms, 200 ms, 500 ms, 1 s,
// 2 s, 5 s, and 5 s from then on. It never stops. Not for concurrent use.
type Ladder struct {
	next   int
	steady bool
}

var _ backoff.BackOff = (*Ladder)(nil)

// NewLadder returns a ladder whose waits vary by 20 % either way, so that
// members that lost Consul together do not come back together.
func NewLadder() *Ladder { return &Ladder{} }

// NewSteadyLadder returns a ladder without that variation.
func NewSteadyLadder() *Ladder { return &Ladder{steady: true} }

// NextBackOff returns the next wait.
func (l *Ladder) NextBackOff() time.Duration {
	d := rungs[l.next]
	l.next = min(l.next+1, len(rungs)-1)
	if l.steady {
		return d
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// Reset goes back to the first rung: after a success.
func (l *Ladder) Reset() { l.next = 0 }

// Pause waits for d or the end of ctx, and tells whether ctx goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Repeat calls ask again and again until ctx ends, and yields each answer; who takes it may pause
// before the next. After a failure it waits as the ladder says, or as pause says, which is told the
// error and the ladder's wait. Failures and the recovery are reported as what.
func Repeat[T any](ctx context.Context, s Store, what string,
	pause func(error, time.Duration) time.Duration, ask func(context.Context) (T,
		error)) iter.Seq[T] {
	return func(yield func(T) bool) {
		for ladder := NewLadder(); ; {
			answer, err := ask(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				ladder.Reset()
				s.Succeeded(what)
				if !yield(answer) || ctx.Err() != nil {
					return
				}
				continue
			}
			wait := ladder.NextBackOff()
			if pause != nil {
				wait = pause(err, wait)
			}
			s.Failed(what, err, wait)
			if !Pause(ctx, wait) {
				return
			}
		}
	}
}

// Retry calls f until it succeeds, fails with something that trying again does
// not help, or ctx ends. [ErrUnreachable] is tried again on the [Ladder],
// [ErrDenied] every 5 s; everything else is returned. When ctx ends the error
// is f's last one and matches ctx.Err() as well. Failures and the recovery are
// reported as what.
//
// A write that is tried again may be applied twice, or once more much later:
// use it for writes that do not mind.
func Retry(ctx context.Context, s Store, what string, f func(context.Context) error) error {
	ladder := NewLadder()
	for {
		err := f(ctx)
		kind := kindOf(err)
		switch {
		case err == nil:
			s.Succeeded(what)
			return nil
		case ctx.Err() != nil:
			return ended(what, err, ctx.Err())
		case kind == ErrUnreachable, kind == ErrDenied:
		case kind == ErrRefused, kind == ErrSessionGone, kind == ErrNotFound:
			s.Succeeded(what) // an answer is an answer
			return err
		default:
			return err
		}
		pause := ladder.NextBackOff()
		if kind == ErrDenied {
			pause = deniedPause
		}
		s.Failed(what, err, pause)
		if !Pause(ctx, pause) {
			return ended(what, err, ctx.Err())
		}
	}
}

// RetryUnlessDenied is Retry for those who are waited for by somebody who can act: a denial is an
// answer.
func RetryUnlessDenied(ctx context.Context, s Store, what string,
	f func(context.Context) error) error {
	var denied error
	err := Retry(ctx, s, what, func(ctx context.Context) error {
		err := f(ctx)
		if denied = nil; errors.Is(err, ErrDenied) {
			denied, err = err, nil
		}
		return err
	})
	return cmp.Or(err, denied)
}

// ended adds the end of the caller's context to the last error.
func ended(what string, err, ctxErr error) error {
	if errors.Is(err, ctxErr) {
		return err
	}
	return fmt.Errorf("%s: %w before it worked: %w", what, ctxErr, err)
}
