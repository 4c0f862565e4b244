package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
)

// A body has its own time. What a request waits for Consul begins when the value is here: a thin
// line would else write nothing, however often it tries.
func TestAValueThatArrivesSlowlyIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		store := loaded(t, consul.Client())
		body, in := io.Pipe()
		go func() {
			_, _ = in.Write([]byte("slow"))
			time.Sleep(configPatience + time.Second)
			_ = in.Close()
		}()
		w := httptest.NewRecorder()
		newConfigSite(store, 1, newTurns()).handler().ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/config/k", body))
		if w.Code != http.StatusNoContent {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
