package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// How long a call is waited for that a member makes on its way out. A call makes two requests as a
// rule, one after the other. A single request ends by itself after [store.DefaultCallTimeout].
// Where nothing has come back, Consul is likely to be away: the calls after it get silentTimeout,
// so that the stop ends.
const (
	// LastCallTimeout bounds a call of two requests.
	LastCallTimeout = 4500 * time.Millisecond
	// answerTakes is how long Consul may take for each answer: T/5 by default. A request that was
	// cut short before tells nothing of Consul.
	answerTakes   = 2 * time.Second
	silentTimeout = time.Second
	// silenceCounts is longer than what is left of a stop. A term may end long before its member.
	silenceCounts = 30 * time.Second
	// lastTries is how often a call is made whose connection breaks off: that tells nothing of the
	// next one.
	lastTries = 3
	lastPause = 50 * time.Millisecond
	// lastTrySoon is what a try may have taken after which there is another one: a stop makes
	// several calls one after the other, and three tries of each are to be no wait.
	lastTrySoon = 300 * time.Millisecond
)

// silence is when a request of a last call had no answer; nil after one that had. It goes by the
// requests, not by what the call returns: a call may keep an error to itself, send nothing, or be
// over its time although each of its requests was answered.
type silence struct {
	since atomic.Pointer[time.Time]
	calls atomic.Int32 // the last calls that are waited for
}

func (s *silence) lasts(now time.Time) bool {
	since := s.since.Load()
	return since != nil && now.Sub(*since) < silenceCounts
}

// heard takes in how a request has ended.
func (s *silence) heard(took time.Duration, answered bool) {
	switch {
	case answered:
		s.since.Store(nil)
	case took >= answerTakes:
		now := time.Now()
		s.since.Store(&now)
	}
}

// Silent tells whether the last request of the last calls had no answer. What need not be done on
// the way out is left out then.
func (b *Base) Silent() bool { return b.silence.lasts(time.Now()) }

// LastCall makes a call to Consul by which an actor hands something over, and returns its error.
// Where the connection breaks off, or Consul's answer cannot be used, the call is made again, three
// times in all, but not after a try that took longer than 0.3 s: it is to be one that may be made
// twice. A refusal then counts as what the try before has done, if that may have been carried out.
// The call lasts for [LastCallTimeout] at the most, for 1 s where the last request of the calls
// before it had no answer within 2 s. If ctx has ended already, that does not end the call. Safe
// for concurrent use.
func (b *Base) LastCall(ctx context.Context, do func(context.Context) error) error {
	return b.LastTry(ctx, func(ctx context.Context) error {
		done := false // perhaps
		for tries := 1; ; tries++ {
			began := time.Now()
			err := do(ctx)
			switch {
			case done && errors.Is(err, store.ErrRefused):
				return nil
			case tries == lastTries, !errors.Is(err, store.ErrUnreachable),
				errors.Is(err, store.ErrNoAnswer), time.Since(began) > lastTrySoon,
				!store.Pause(ctx, lastPause):
				return err
			}
			done = done || store.OutcomeUnknown(err)
		}
	})
}

// LastTry is [Base.LastCall] in one try.
func (b *Base) LastTry(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	timeout := LastCallTimeout
	if b.Silent() {
		timeout = silentTimeout
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b.silence.calls.Add(1)
	defer b.silence.calls.Add(-1)
	return do(store.WithOutcomes(call, b.silence.heard))
}

// Answered makes a request by which an actor takes something. If ctx ends meanwhile, the request is
// not cut off: it may be carried out all the same, and whoever stops has to know what there is to
// hand over. It ends by itself after [store.DefaultCallTimeout] at the most, and counts as under
// [Base.Telling]. Where ctx has ended already nothing is sent.
func (b *Base) Answered(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		return do(ctx)
	}
	return do(context.WithoutCancel(b.Telling(ctx)))
}

// Telling makes each request under the context count among the last calls if ctx has ended when the
// request does, or one of these is waited for: that may be held up by it.
func (b *Base) Telling(ctx context.Context) context.Context {
	return store.WithOutcomes(ctx, func(took time.Duration, answered bool) {
		if ctx.Err() != nil || b.silence.calls.Load() > 0 {
			b.silence.heard(took, answered)
		}
	})
}
