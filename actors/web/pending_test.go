package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A PUT was answered 202, and is not in Consul yet. A DELETE by the same store comes after it, also
// one that would find nothing to delete.
func TestAConditionalDeleteComesAfterAPutThatWaits(t *testing.T) {
	for condition, want := range map[string]struct {
		code  int
		value string // "-": the key is not there
		away  int    // the code while Consul answers nothing
	}{
		`"5"`: {http.StatusNoContent, "-", http.StatusServiceUnavailable},
		"*":   {http.StatusPreconditionFailed, "late", http.StatusAccepted},
	} {
		t.Run(condition, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				consul := devconsul.New(devconsul.Config{NoJitter: true})
				t.Cleanup(consul.Close)
				wire := transport.NewWire(consul.RoundTripper())
				store := loaded(t, devconsul.ClientOver(wire), func(c *configstore.Config) {
					c.LogDir = dir
				})
				page := newConfigSite(store, 1, newTurns()).handler()
				ask := func(method, body, condition string) int {
					r := httptest.NewRequest(method, "/config/k?wait=15s", strings.NewReader(body))
					if condition != "" {
						r.Header.Set("If-None-Match", condition)
					}
					w := httptest.NewRecorder()
					page.ServeHTTP(w, r)
					return w.Code
				}
				// Consul answers reads, and takes no write of the key.
				wire.Via(transport.When(consul.RoundTripper(), transport.TxnWith("config_data/k"),
					transport.Fail(transport.ErrReset)))
				if code := ask(http.MethodPut, "late", ""); code != http.StatusAccepted {
					t.Fatalf("PUT: %d", code)
				}
				told := make(chan int, 1)
				go func() { told <- ask(http.MethodDelete, "", condition) }()
				time.Sleep(time.Second)
				wire.Via(consul.RoundTripper())
				if code := <-told; code != want.code {
					t.Errorf("DELETE: %d", code)
				}
				time.Sleep(time.Minute)
				pair, _, err := consul.Client().KV().Get("service/demo/config_data/k", nil)
				must(t, err)
				value := "-"
				if pair != nil {
					value = string(pair.Value)
				}
				if value != want.value {
					t.Errorf("the value is %q", value)
				}
				wire.Cut(transport.ErrReset)
				if code := ask(http.MethodDelete, "", condition); code != want.away {
					t.Errorf("DELETE while Consul is away: %d", code)
				}
				if q := store.Queue().Get(); q.Refused != 0 {
					t.Errorf("reported as refused: %+v", q.Conflicts)
				}
			})
		})
	}
}
