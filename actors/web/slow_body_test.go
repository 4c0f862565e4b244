package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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
		newConfigSite(store, 1).handler().ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/config/k", body))
		if w.Code != http.StatusNoContent {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// A write that is not waited for would be answered with 503 each time, written or not.
func TestAWriteThatIsNotWaitedForIsRefusedAndWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		h := newConfigSite(loaded(t, consul.Client()), 1).handler()
		ask := func(method, wait string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method,
				"/config/k?wait="+wait, strings.NewReader("v")))
			return w
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			if w := ask(method, "0s"); w.Code != http.StatusBadRequest ||
				!strings.Contains(w.Body.String(), "wait=1s") {
				t.Errorf("%s: %d %s", method, w.Code, w.Body)
			}
		}
		time.Sleep(time.Minute)
		if w := ask(http.MethodGet, "0s"); w.Code != http.StatusNotFound {
			t.Errorf("a minute later it is read with %d %s", w.Code, w.Body)
		}
		if w := ask(http.MethodPut, "1s"); w.Code != http.StatusNoContent {
			t.Errorf("with a wait: %d %s", w.Code, w.Body)
		}
		if w := ask(http.MethodGet, "1s"); w.Code != http.StatusOK {
			t.Errorf("it is read with %d %s", w.Code, w.Body)
		}
	})
}
