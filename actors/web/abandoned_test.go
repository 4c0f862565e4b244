package web

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// goneClient is a client that goes away while its answer is sent.
type goneClient struct{ header http.Header }

func (g goneClient) Header() http.Header       { return g.header }
func (g goneClient) WriteHeader(int)           {}
func (g goneClient) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A list that is not from the cache has a place, of which there are few.
func TestClientsThatLeaveDuringAListKeepNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		defer consul.Close()
		for i := range 3 {
			if _, err := consul.Client().KV().Put(&api.KVPair{
				Key:   fmt.Sprint("service/demo/config_data/k", i),
				Value: bytes.Repeat([]byte("v"), listPiece)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		// It does not run, so its cache is never fresh.
		store, err := configstore.New(configstore.Config{Service: "demo", Client: consul.Client(),
			Logger: slog.New(slog.DiscardHandler), ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		site := newConfigSite(store, 1).handler()
		ask := func(w http.ResponseWriter) {
			defer func() { _ = recover() }() // as net/http does
			site.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"/config/", nil))
		}
		for range 10 {
			ask(goneClient{http.Header{}})
		}
		w := httptest.NewRecorder()
		ask(w)
		if w.Code != http.StatusOK {
			t.Errorf("after them: %d %s", w.Code, w.Body)
		}
	})
}
