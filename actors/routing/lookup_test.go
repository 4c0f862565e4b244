package routing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// begin runs a router that reaches Consul by way; stop, which may be called again, waits for its
// end.
func begin(t *testing.T, way http.RoundTripper, log *slog.Logger) (r *routing.Router, stop func()) {
	t.Helper()
	r, err := routing.New(routing.Config{Service: "demo", Client: devconsul.ClientOver(way),
		Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the router ended with %v", err)
		}
	})
}

// running runs f beside a router on an embedded Consul, in virtual time.
func running(t *testing.T, f func(t *testing.T, r *routing.Router, way *transport.Recorder,
	stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		consul := devconsul.New(devconsul.Config{Logger: quiet, NoJitter: true})
		defer consul.Close()
		way := &transport.Recorder{To: consul.RoundTripper(), Keep: func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/workload/")
		}}
		r, stop := begin(t, way, quiet)
		defer stop()
		f(t, r, way, stop)
	})
}

func TestAFloodOfUnknownItemsIsNoFloodForConsul(t *testing.T) {
	running(t, func(t *testing.T, r *routing.Router, way *transport.Recorder, _ func()) {
		const seconds = 4
		var all sync.WaitGroup
		var unknown, notReady atomic.Int64
		for range seconds {
			for i := range 1000 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					switch _, err := r.Locate(ctx, fmt.Sprintf("item-%d-%d", time.Now().Unix(),
						i)); {
					case errors.Is(err, routing.ErrUnknownItem):
						unknown.Add(1)
					case errors.Is(err, routing.ErrNotReady):
						notReady.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		time.Sleep(time.Minute) // reads whose askers have gone
		if n := len(way.Copies()); n == 0 || n > 200*(seconds+10) {
			t.Errorf("%d reads of the workload in %d s", n, seconds)
		}
		if unknown.Load() == 0 || notReady.Load() == 0 {
			t.Errorf("%d unknown, %d not ready", unknown.Load(), notReady.Load())
		}
	})
}

func TestWithAContextThatHasEndedNobodyIsAsked(t *testing.T) {
	running(t, func(t *testing.T, r *routing.Router, way *transport.Recorder, _ func()) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 { // before all has been read, and after
			if _, err := r.Locate(ended, "a"); !errors.Is(err, routing.ErrNotReady) ||
				!errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(way.Copies()); n != 0 {
			t.Errorf("%d reads of the workload", n)
		}
		if _, err := r.Locate(t.Context(), "a"); !errors.Is(err, routing.ErrUnknownItem) {
			t.Error(err)
		}
		// known for a second
		if _, err := r.Locate(ended, "a"); !errors.Is(err, routing.ErrUnknownItem) {
			t.Error(err)
		}
	})
}

func TestNobodyWaitsForARouterThatHasStopped(t *testing.T) {
	for _, asked := range []bool{true, false} { // before
		running(t, func(t *testing.T, r *routing.Router, _ *transport.Recorder, stop func()) {
			if synctest.Wait(); asked {
				if _, err := r.Await(t.Context(), "a"); !errors.Is(err, routing.ErrUnknownItem) {
					t.Fatal(err)
				}
			}
			stop()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := r.Await(ctx, "a"); !errors.Is(err, routing.ErrNotReady) ||
				!errors.Is(err, routing.ErrStopped) || routing.Retriable(err) ||
				time.Since(began) > 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			if _, err := r.Members(ctx); !errors.Is(err, routing.ErrStopped) {
				t.Error(err)
			}
		})
	}
}

// The first question comes while everything is being read for the first time: at any moment of
// that.
func TestTheFirstQuestionWaitsForTheFirstReading(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			quiet := slog.New(slog.DiscardHandler)
			consul := devconsul.New(devconsul.Config{Logger: quiet, NoJitter: true})
			defer consul.Close()
			w := populate(t, consul, 3, 9)
			r, stop := begin(t, consul.RoundTripper(), quiet)
			defer stop()
			if _, err := r.Locate(t.Context(), w.item(0)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A second Run would keep the same table beside the first one.
func TestARouterIsRunOnce(t *testing.T) {
	running(t, func(t *testing.T, r *routing.Router, _ *transport.Recorder, stop func()) {
		synctest.Wait() // the first Run has begun
		for _, when := range []string{"while it runs", "after it has ended"} {
			if err := r.Run(t.Context()); !errors.Is(err, routing.ErrStarted) {
				t.Errorf("%s: %v", when, err)
			}
			stop()
		}
	})
}

// A proxy answers so for a while, or an agent that was started anew with TLS alone.
func TestAnItemIsNotUnknownBecauseSomethingRefusesTheQuestion(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge} {
		running(t, func(t *testing.T, r *routing.Router, way *transport.Recorder, _ func()) {
			ops := api.KVTxnOps{{Verb: api.KVSet, Key: "service/demo/workload/w1"}}
			client := devconsul.ClientOver(way.To)
			if ok, _, _, err := client.KV().Txn(ops, nil); err != nil || !ok {
				t.Fatal(ok, err)
			}
			var refuses atomic.Bool
			refuses.Store(true)
			way.To = transport.When(way.To, func(q *http.Request) bool {
				return refuses.Load() && way.Keep(q)
			}, transport.Always(status, "Client sent an HTTP request to an HTTPS server.\n"))
			if _, err := r.Locate(t.Context(), "w1"); !errors.Is(err, routing.ErrNotReady) ||
				!routing.Retriable(err) || errors.Is(err, routing.ErrUnknownItem) {
				t.Errorf("while it answers %d: %v", status, err)
			}
			refuses.Store(false)
			if _, err := r.Locate(t.Context(), "w1"); !errors.Is(err, routing.ErrNoOwner) {
				t.Errorf("after %d: %v", status, err)
			}
		})
	}
}
