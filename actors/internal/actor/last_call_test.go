package actor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// It goes by the requests: a call that keeps its error to itself was heard no more than one that
// returns it, and one that sent nothing has heard nothing.
func TestAfterARequestWithoutAnAnswerTheLastCallsWaitForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way transport.Func
		client, err := store.NewClient(&api.Config{Address: "consul.test", HttpClient: &http.Client{
			Transport: transport.Func(func(r *http.Request) (*http.Response, error) {
				return way(r)
			})}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.New(store.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		b, ended := &actor.Base{Store: &protocol.Store{Store: s}}, endedContext()
		answersIn := func(d time.Duration) transport.Func {
			return func(r *http.Request) (*http.Response, error) {
				select {
				case <-time.After(d):
					return transport.Answer(r, http.StatusNotFound, ""), nil
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
		}
		call := func(ctx context.Context, requests int, by transport.Func) (took time.Duration) {
			began := time.Now()
			way = by
			_ = b.LastCall(ctx, func(ctx context.Context) error {
				for range requests {
					_, _, _, _ = b.Store.Get(ctx, "a-key", store.Consistent)
				}
				return nil
			})
			return time.Since(began)
		}
		const short, answer = time.Second, 1900 * time.Millisecond
		waits := func(when string, want time.Duration) {
			t.Helper()
			if took := call(ended, 2, transport.Hang); took != want {
				t.Errorf("%s: a call is waited for for %v, want %v", when, took, want)
			}
		}
		waits("at first", actor.LastCallTimeout)
		waits("after a call without an answer", short)
		call(ended, 0, transport.Hang)
		waits("after one that sent nothing", short)
		call(ended, 1, func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		})
		waits("after one that failed at once", actor.LastCallTimeout)
		call(ended, 1, answersIn(0))
		waits("after an answer", actor.LastCallTimeout)
		time.Sleep(time.Minute)
		waits("a minute later", actor.LastCallTimeout)
		time.Sleep(time.Minute)
		if took := call(ended, 3, answersIn(answer)); took != actor.LastCallTimeout {
			t.Errorf("a call of three slow requests is waited for for %v", took)
		}
		waits("after one whose requests were answered slowly", actor.LastCallTimeout)
		time.Sleep(time.Minute)

		soon, cancel := context.WithTimeout(context.Background(), short/2)
		defer cancel()
		if took := call(soon, 1, transport.Hang); took != short/2 {
			t.Errorf("a call whose context ends is waited for for %v", took)
		}
		waits("after one that was cut short", actor.LastCallTimeout)
		time.Sleep(time.Minute)

		// A request that takes something outlasts its context, and counts if that has ended.
		answered := func(ctx context.Context) (took time.Duration) {
			began := time.Now()
			_ = b.Answered(ctx, func(ctx context.Context) error {
				_, _, _, err := b.Store.Get(ctx, "a-key", store.Consistent)
				return err
			})
			return time.Since(began)
		}
		way = transport.Hang
		if took := answered(context.Background()); took != store.DefaultCallTimeout {
			t.Errorf("its answer is waited for for %v", took)
		}
		waits("after one that had no answer before the stop", actor.LastCallTimeout)
		time.Sleep(time.Minute)
		way = transport.Hang
		soon, cancel = context.WithTimeout(context.Background(), short)
		defer cancel()
		if took := answered(soon); took != store.DefaultCallTimeout {
			t.Errorf("its answer is waited for for %v beside a stop", took)
		}
		waits("after one that had no answer beside a stop", short)
		if took := answered(soon); took != 0 {
			t.Errorf("after the stop it took %v", took)
		}
		time.Sleep(time.Minute)

		// So does one that a last call waits behind.
		ask := func(ctx context.Context) {
			_, _, _, _ = b.Store.Get(b.Telling(ctx), "a-key", store.Consistent)
		}
		ask(context.Background())
		waits("after one beside no last call", actor.LastCallTimeout)
		time.Sleep(time.Minute)
		_ = b.LastCall(ended, func(context.Context) error {
			ask(context.Background())
			return nil
		})
		waits("after one beside a last call", short)
	})
}

func TestALastCallIsMadeAgainWhereItsConnectionBreaksOff(t *testing.T) {
	broken := fmt.Errorf("%w: broken off", store.ErrUnreachable) // OutcomeUnknown
	silent := fmt.Errorf("%w, %w", store.ErrUnreachable, store.ErrNoAnswer)
	for name, c := range map[string]struct {
		errs  []error       // of its tries; the last one of all that follow
		each  time.Duration // of its tries
		tries int
		want  error
		takes time.Duration
	}{
		"done":            {[]error{nil}, 0, 1, nil, 0},
		"refused":         {[]error{store.ErrRefused}, 0, 1, store.ErrRefused, 0},
		"denied":          {[]error{store.ErrDenied}, 0, 1, store.ErrDenied, 0},
		"no answer":       {[]error{silent}, 0, 1, silent, 0},
		"broken off once": {[]error{broken, nil}, 0, 2, nil, 50 * time.Millisecond},
		"broken off":      {[]error{broken}, 0, 3, broken, 100 * time.Millisecond},
		"carried out, then off": {[]error{broken, store.ErrRefused}, 0, 2, nil,
			50 * time.Millisecond},
		"then silent":     {[]error{broken, silent}, 0, 2, silent, 50 * time.Millisecond},
		"broken off soon": {[]error{broken}, 300 * time.Millisecond, 3, broken, time.Second},
		"broken off late": {[]error{broken}, 301 * time.Millisecond, 1, broken,
			301 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, tries, began := &actor.Base{}, 0, time.Now()
			err := b.LastCall(endedContext(), func(context.Context) error {
				tries++
				time.Sleep(c.each)
				return c.errs[min(tries, len(c.errs))-1]
			})
			if took := time.Since(began); !errors.Is(err, c.want) || tries != c.tries ||
				took != c.takes {
				t.Errorf("%s: %v after %d tries, %v; want %v after %d, %v", name, err, tries, took,
					c.want, c.tries, c.takes)
			}
		})
	}
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
