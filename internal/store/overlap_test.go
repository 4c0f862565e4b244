package store_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// A panic in a goroutine that no supervisor watches would end the process.
func TestAPanicBesideItsCallerComesOutAtTheCaller(t *testing.T) {
	for what, call := range map[string]func(t *testing.T, s store.Store, breaks func(path string)){
		"a batch": func(t *testing.T, s store.Store, breaks func(string)) {
			w, err := store.OpenWriter(t.Context(), s, store.CheckNotExists("leader"),
				"sequence/", 2)
			must(t, err)
			breaks("/v1/txn")
			w.Write(t.Context(), []store.Unit{{Ops: []store.Op{store.Set("k", nil, 0)}}})
		},
		"a renewal": func(t *testing.T, s store.Store, breaks func(string)) {
			id, r := session(t, s), renewal(s)
			breaks("/v1/session/renew/")
			defer r.Wait()
			_, _, _ = r.Ask(t.Context(), id)
		},
		"a look at two sessions": func(t *testing.T, s store.Store, breaks func(string)) {
			breaks("/v1/session/info/" + session(t, s)) // and not of the one that is asked about
			_, _, _ = s.SessionInfo(t.Context(), "0c0c0c0c-0000-4000-8000-000000000000")
		},
		"a report": func(t *testing.T, s store.Store, breaks func(string)) {
			k := store.CheckKeeper{Store: s, TTL: 10 * time.Second, Log: (&lines{}).logger(),
				Instance: messages.NewState(store.Instance{ID: "i", Service: "x",
					CheckTTL: time.Second}).Reader(),
				Out: messages.NewState(facts.Check{}), Says: func() string { return "" }}
			breaks("/v1/agent/check/update/")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = k.Run(ctx)
		},
	} {
		bubble(t, func(t *testing.T, consul *devconsul.Server, _ store.Store) {
			broken := ""
			s := over(t, transport.Func(func(r *http.Request) (*http.Response, error) {
				if broken != "" && strings.HasPrefix(r.URL.Path, broken) {
					panic("a defect")
				}
				return consul.RoundTripper().RoundTrip(r)
			}))
			defer func() {
				if p := recover(); p != "a defect" {
					t.Errorf("%s: the caller sees %v", what, p)
				}
			}()
			call(t, s, func(path string) { broken = path })
		})
	}
}
