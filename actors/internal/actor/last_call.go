package actor

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

const (
	// LastCallTimeout bounds a call that a member makes on its way out: of two requests as a rule,
	// one after the other. A stop makes five of them at the most where Consul does not answer.
	LastCallTimeout = 4500 * time.Millisecond
	// lastTries is how often such a call is made whose connection breaks off: that tells nothing of
	// the next one.
	lastTries = 3
	lastPause = 50 * time.Millisecond
)

// LastCall makes a call to Consul by which an actor hands something over, and returns its error.
// Where the connection breaks off, or Consul's answer cannot be used, the call is made again, three
// times in all: it is to be one that may be made twice. A refusal then counts as what the try before
// has done, if that may have been carried out. The call lasts for [LastCallTimeout] at the most. If
// ctx has ended already, that does not end the call.
func (b *Base) LastCall(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	call, cancel := context.WithTimeout(ctx, LastCallTimeout)
	defer cancel()
	done := false // perhaps
	for tries := 1; ; tries++ {
		err := do(call)
		switch {
		case done && errors.Is(err, store.ErrRefused):
			return nil
		case tries == lastTries, !errors.Is(err, store.ErrUnreachable),
			errors.Is(err, store.ErrNoAnswer), !store.Pause(call, lastPause):
			return err
		}
		done = done || store.OutcomeUnknown(err)
	}
}

// Answered makes a request by which an actor takes something. If ctx ends meanwhile, the request is
// not cut off: it may be carried out all the same, and who stops has to know what there is to
// hand over. It ends by itself after [store.DefaultCallTimeout] at the most. Where ctx has ended
// already nothing is sent.
func (b *Base) Answered(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		return do(ctx)
	}
	return do(context.WithoutCancel(ctx))
}
