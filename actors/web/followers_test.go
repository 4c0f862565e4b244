package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

// A follower ends with the store, as one of a single key does.
func TestAFollowerOfAListEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		s := showing(&fakeLooker{})
		s.config = loaded(t, consul.Client())
		h := s.handler()
		time.Sleep(5 * time.Second)
		began := time.Now()
		time.AfterFunc(time.Second, s.config.Close)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/config/?wait=5m", nil)
		r.Header.Set("If-None-Match", ask(s, "/config/").Header().Get("ETag"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotModified || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %d %s", time.Since(began), w.Code, w.Body)
		}
	})
}
