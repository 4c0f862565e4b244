package actor_test

import (
	"context"
	"errors"
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

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
