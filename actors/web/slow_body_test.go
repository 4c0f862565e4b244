package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
)

// A body has its own time. What a request waits for Consul begins when the value is here: a thin
// line would else write nothing, however often it tries.
func TestAValueThatArrivesSlowlyIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		defer consul.Close()
		store, err := configstore.New(configstore.Config{Service: "demo", Client: consul.Client(),
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- store.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		if err := store.WaitLoaded(ctx); err != nil {
			t.Fatal(err)
		}
		body, in := io.Pipe()
		go func() {
			_, _ = in.Write([]byte("slow"))
			time.Sleep(configPatience + time.Second)
			_ = in.Close()
		}()
		w := httptest.NewRecorder()
		newConfigSite(store, 1).handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx,
			http.MethodPut, "/config/k", body))
		if w.Code != http.StatusNoContent {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
