package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// The cache may be behind what Consul has, and behind what the client has read by way of another
// member.
func TestAGetThatWaitsBringsNothingOlderThanConsulHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		var severed atomic.Bool // every answer with the whole configuration is lost
		client := devconsul.ClientOver(transport.Func(
			func(r *http.Request) (*http.Response, error) {
				resp, err := consul.RoundTripper().RoundTrip(r)
				if err == nil && severed.Load() && strings.HasSuffix(r.URL.Path, "/config_data/") {
					resp.Body.Close()
					return nil, transport.ErrReset
				}
				return resp, err
			}))
		put := func(value string) string {
			kv := consul.Client().KV()
			if _, err := kv.Put(&api.KVPair{Key: "service/demo/config_data/k",
				Value: []byte(value)}, nil); err != nil {
				t.Fatal(err)
			}
			pair, _, err := kv.Get("service/demo/config_data/k", nil)
			if err != nil {
				t.Fatal(err)
			}
			return tag(pair.ModifyIndex)
		}
		put("old")
		store := loaded(t, client)
		severed.Store(true)
		newest := put("new")
		time.Sleep(2 * configstore.DefaultMaxAge)
		page := newConfigSite(store, 1).handler()
		get := func(path string) (int, string) {
			r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
			r.Header.Set("If-None-Match", newest)
			page.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		for path, what := range map[string]string{"/config/k": "a read",
			"/config/k?wait=10s": "one that waits"} {
			if code, body := get(path); code != http.StatusNotModified {
				t.Errorf("%s, by a client that has the newest value: %d %q", what, code, body)
			}
		}
		severed.Store(false)
		after := time.AfterFunc(20*time.Second, func() { put("newer") })
		defer after.Stop()
		if code, body := get("/config/k?wait=1m"); code != http.StatusOK || body != "newer" {
			t.Errorf("the next value, waited for: %d %q", code, body)
		}
	})
}
