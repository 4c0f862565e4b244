package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
)

func TestAfterACallWithoutAnAnswerTheLastCallsWaitForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ended := &actor.Base{}, endedContext()
		call := func(ctx context.Context, err error) (took time.Duration) {
			began := time.Now()
			_ = b.LastCall(ctx, func(ctx context.Context) error {
				if err == nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			})
			return time.Since(began)
		}
		waits := func(when string, want time.Duration) {
			t.Helper()
			if took := call(ended, nil); took != want {
				t.Errorf("%s: a call is waited for for %v, want %v", when, took, want)
			}
		}
		const short = time.Second
		waits("at first", actor.LastCallTimeout)
		waits("after a call without an answer", short)
		call(ended, errors.New("connection refused"))
		waits("after one that failed at once", actor.LastCallTimeout)
		call(ended, fmt.Errorf("a request: %w", store.ErrRefused))
		waits("after an answer", actor.LastCallTimeout)
		time.Sleep(time.Minute)
		waits("a minute later", actor.LastCallTimeout)
		call(ended, store.ErrRefused)
		call(ended, fmt.Errorf("a request: %w", store.ErrNoAnswer))
		waits("after a request that was given up", short)

		call(ended, store.ErrRefused)
		soon, cancel := context.WithTimeout(context.Background(), short/2)
		defer cancel()
		if took := call(soon, nil); took != short/2 {
			t.Errorf("a call whose context ends is waited for for %v", took)
		}
		waits("after one that was cut short", actor.LastCallTimeout)
	})
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
