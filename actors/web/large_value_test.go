package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/internal/devconsul"
)

// A value is held by its client for as long as that reads. It is the cache's, and no copy of it.
func TestReadersOfALargeValueHaveNoCopyEachOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		store := loaded(t, consul.Client())
		value := bytes.Repeat([]byte("v"), 300<<10)
		if _, err := store.Put(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
		site := newConfigSite(store, 1).handler()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const readers = 20
		for range readers {
			client := &pieces{header: http.Header{}}
			site.ServeHTTP(client, httptest.NewRequest(http.MethodGet, "/config/k", nil))
			if client.all.Load() != int64(len(value)) {
				t.Fatalf("%d bytes", client.all.Load())
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / readers; each > uint64(len(value))/4 {
			t.Errorf("each reader of %d bytes takes %d bytes of memory", len(value), each)
		}
	})
}
