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
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
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
		site := newConfigSite(store, 1, newTurns()).handler()
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

// Clients that read slowly may have all the places for lists that are not from the cache.
func TestAListBehindAWriteIsAnsweredFromTheCacheOnceTheWatchHasBroughtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		slow := transport.Func(func(r *http.Request) (*http.Response, error) {
			resp, err := consul.RoundTripper().RoundTrip(r)
			if transport.Poll(r) {
				time.Sleep(time.Second)
			}
			return resp, err
		})
		store := loaded(t, devconsul.ClientOver(slow))
		if _, err := store.Put(t.Context(), "own", []byte("v")); err != nil {
			t.Fatal(err)
		}
		site := newConfigSite(store, 1, newTurns())
		for range cap(site.reading) {
			site.reading <- struct{}{}
		}
		w := httptest.NewRecorder()
		site.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config/", nil))
		if w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
