package routing_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A look-up is everybody's: no caller's goroutine makes it, and no supervisor's.
func TestATransportThatFailsInALookUpFailsThatLookUp(t *testing.T) {
	for name, fails := range map[string]func(){
		"panics": func() { panic("no transport") },
		"leaves": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				consul := devconsul.New(devconsul.Config{})
				defer consul.Close()
				var broken atomic.Bool
				broken.Store(true)
				r, stop := begin(t, transport.Func(func(q *http.Request) (*http.Response, error) {
					if broken.Load() && strings.Contains(q.URL.Path, "/workload/") {
						fails()
					}
					return consul.RoundTripper().RoundTrip(q)
				}), nil)
				defer stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := r.Locate(ctx, "x")
				if !errors.Is(err, routing.ErrNotReady) || time.Since(began) > 10*time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				broken.Store(false)
				if _, err := r.Locate(ctx, "x"); !errors.Is(err, routing.ErrUnknownItem) {
					t.Errorf("with a transport that works again: %v", err)
				}
			})
		})
	}
}
