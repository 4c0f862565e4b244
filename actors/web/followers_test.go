package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// Hundreds follow the configuration with If-None-Match and ?wait=, and each change wakes all of
// them. What a follower's list is by now is found out in a turn, once for all who follow the same
// prefix, and nothing is listed for who gets nothing.
func TestFollowersOfAListTogetherCostOneLookAtItForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		consul := devconsul.New(devconsul.Config{NoJitter: true})
		t.Cleanup(consul.Close)
		put := func(key, value string) {
			t.Helper()
			if _, err := consul.Client().KV().Put(&api.KVPair{
				Key: "service/demo/config_data/" + key, Value: []byte(value)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1000 { // a look at them makes some 40 KiB, a list of them 300 KiB
			put(fmt.Sprintf("followed/device_group_%05d", i), "v")
		}
		// What a follower and its request take of themselves, on a busy machine up to 12 KiB, and what
		// all looks together may: one look of each of them would be 4 MB.
		const followers, little = 100, 100*20<<10 + 200<<10
		s := showing(&fakeLooker{})
		s.config = loaded(t, consul.Client())
		s.waits = followers
		h := s.handler()
		time.Sleep(5 * time.Second)
		const path = "/config/?prefix=followed/&wait=5m"
		first := ask(s, path).Header().Get("ETag")
		change := func(key, value string) func() {
			return func() { put(key, value); time.Sleep(2 * time.Second) }
		}
		change("other", "first")() // so that what comes is alike
		alone := made(change("other", "second"))

		answers := make([]*httptest.ResponseRecorder, followers)
		var asked sync.WaitGroup
		if n := made(func() {
			for i := range answers {
				answers[i] = httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Header.Set("If-None-Match", first)
				asked.Go(func() { h.ServeHTTP(answers[i], r) })
			}
		}); n > little {
			t.Errorf("%d followers came, and making took %d bytes", followers, n)
		}
		if n := made(change("other", "third")); n > alone+little {
			t.Errorf("a change of another key took %d bytes with %d followers, and %d with none",
				n, followers, alone)
		}
		for range cap(s.turns) {
			s.turns <- struct{}{} // others are at it
		}
		change("followed/device_group_00007", "new")()
		for _, w := range answers {
			if w.Body.Len() > 0 || w.Header().Get("ETag") != first {
				t.Errorf("without a turn a follower has found out: %d %q %.60s", w.Code,
					w.Header().Get("ETag"), w.Body)
				break
			}
		}
		for range cap(s.turns) {
			<-s.turns
		}
		asked.Wait()
		newest := ask(s, path).Header().Get("ETag")
		for _, w := range answers {
			if got := w.Header().Get("ETag"); w.Code != http.StatusOK || got != newest ||
				got == first || w.Body.Len() < 10_000 {
				t.Fatalf("a follower of what changed got %d, ETag %s, and now it is %s: %.60s",
					w.Code, got, newest, w.Body)
			}
		}
	})
}

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
