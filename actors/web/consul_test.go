package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// Consul takes 200 connections from one address, and the session needs one of them.
func TestACrowdThatConsulHasToBeAskedForTakesFewConnections(t *testing.T) {
	const crowd = 250
	for name, c := range map[string]struct {
		fresh   bool
		request string
		path    string
	}{
		"reads without a cache": {false, http.MethodGet, "k"},
		"lists without a cache": {false, http.MethodGet, ""},
		// the cache shows it, and not yet what others have written before it
		"lists behind a write": {true, http.MethodGet, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				consul := devconsul.New(devconsul.Config{})
				defer consul.Close()
				var now, most atomic.Int64
				slow := transport.Func(func(r *http.Request) (*http.Response, error) {
					if !transport.Poll(r) {
						most.Store(max(most.Load(), now.Add(1)))
						defer now.Add(-1)
						time.Sleep(10 * time.Millisecond)
					} else if c.path == "" {
						return transport.Hang(r)
					}
					return consul.RoundTripper().RoundTrip(r)
				})
				store, err := configstore.New(configstore.Config{Service: "demo",
					Client: devconsul.ClientOver(slow), Logger: slog.New(slog.DiscardHandler)})
				must(t, err)
				if _, err := consul.Client().KV().Put(&api.KVPair{
					Key: "service/demo/config_data/k", Value: []byte("v")}, nil); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running, all sync.WaitGroup
				if c.fresh {
					running.Go(func() { _ = store.Run(ctx) })
					must(t, store.WaitLoaded(ctx))
				}
				defer running.Wait()
				defer cancel()
				if c.fresh {
					if _, err := store.Put(ctx, "own", nil); err != nil {
						t.Fatal(err)
					}
				}
				s := showing(&fakeLooker{})
				s.config = store
				h := s.handler()
				for range crowd {
					all.Go(func() {
						r := httptest.NewRequest(c.request, "/config/"+c.path+"?wait=1m",
							strings.NewReader("x"))
						w := httptest.NewRecorder()
						h.ServeHTTP(w, r)
						if w.Code != http.StatusOK {
							text, _ := io.ReadAll(w.Body)
							t.Errorf("%d: %s", w.Code, text)
						}
					})
				}
				all.Wait()
				if n := most.Load(); n > 2*consulReads {
					t.Errorf("%d clients had Consul asked %d things at once", crowd, n)
				}
			})
		})
	}
}
