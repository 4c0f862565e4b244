package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// next asks a watch or fails the test.
func next(t *testing.T, w *store.Watch) store.View {
	t.Helper()
	v, err := w.Next(t.Context())
	must(t, err)
	return v
}

// quiet checks that w has nothing to say for d.
func quiet(t *testing.T, w *store.Watch, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	v, err := w.Next(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the watch answered %+v, error %v", v, err)
	}
}

func TestTheFirstNextAnswersAtOnceAndTheOthersOnChange(t *testing.T) {
	bubble(t, func(t *testing.T, _ *devconsul.Server, s store.Store) {
		start := time.Now()
		w := store.WatchKey(s, "k")
		if v := next(t, w); len(v.Entries) != 0 || v.Index == 0 || time.Since(start) != 0 {
			t.Errorf("first: %+v after %v", v, time.Since(start))
		}
		time.AfterFunc(7*time.Minute, func() {
			keys.Put(context.Background(), s, "k", []byte("v"), 0)
		})
		v := next(t, w)
		if len(v.Entries) != 1 || string(v.Entries[0].Value) != "v" ||
			v.Index < v.Entries[0].ModifyIndex {
			t.Errorf("changed: %+v", v)
		}
		if took := time.Since(start); took != 7*time.Minute {
			t.Errorf("answered after %v; polls without a change must be swallowed", took)
		}
		must(t, keys.Delete(t.Context(), s, "k"))
		if v := next(t, w); len(v.Entries) != 0 {
			t.Errorf("deleted: %+v", v)
		}
	})
}

func TestALongPollIsGivenUpWhenItHangs(t *testing.T) {
	for _, key := range []string{"k", "p/"} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { longPollHangs(t, key) })
		})
	}
}

func longPollHangs(t *testing.T, key string) {
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	frozen := false
	s := over(t, tripper(func(r *http.Request) (*http.Response, error) {
		if frozen {
			return hang(r)
		}
		return consul.RoundTripper().RoundTrip(r)
	}), func(c *store.Config) { c.CallTimeout = 2 * time.Second })
	w := store.WatchKey(s, key)
	if strings.HasSuffix(key, "/") {
		w = store.WatchPrefix(s, key)
	}
	next(t, w.Wait(32*time.Second))
	frozen = true
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err := w.Next(ctx)
	wantKind(t, err, store.ErrUnreachable, true)
	if took := time.Since(start); took != 36*time.Second { // 32 s * 17/16 + 2 s
		t.Errorf("gave up after %v", took)
	}
	frozen = false
	start = time.Now()
	next(t, w)
	if took := time.Since(start); took != 0 {
		t.Errorf("after an error the first answer took %v", took)
	}
}

// script answers the requests of a watch one by one and notes what they asked.
type script struct {
	asked   []string
	answers []func(*http.Request) (*http.Response, error)
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.RawQuery)
	if len(s.answers) == 0 {
		return hang(r)
	}
	f := s.answers[0]
	s.answers = s.answers[1:]
	return f(r)
}

func at(index string) func(*http.Request) (*http.Response, error) {
	return always(404, "", "X-Consul-Index", index, "X-Consul-KnownLeader", "true",
		"X-Consul-LastContact", "0")
}

func TestTheRulesForTheIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{answers: []func(*http.Request) (*http.Response, error){
			at("0"), at("9"), at("9"), at("9"), at("9"), at("12"), at("4"), at("4"), at("5"), at("5"),
			at("3"),
		}}
		s := over(t, sc)
		w := store.WatchKey(s, "k")
		var got []uint64
		for range 6 {
			got = append(got, next(t, w).Index)
		}
		if want := "[1 9 12 4 5 3]"; fmt.Sprint(got) != want {
			t.Errorf("answered at %v, want %s", got, want)
		}
		want := []string{"consistent=", "index=1&wait=60000ms", "index=9&wait=60000ms",
			"consistent=", "index=9&wait=60000ms", "index=9&wait=60000ms",
			"index=12&wait=60000ms", "consistent=", "index=4&wait=60000ms",
			"index=5&wait=60000ms", "consistent="}
		if strings.Join(sc.asked, "\n") != strings.Join(want, "\n") {
			t.Errorf("asked %q, want %q", sc.asked, want)
		}
	})
}

func TestAfterAnErrorTheWatchReadsAnewAndConsistently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{answers: []func(*http.Request) (*http.Response, error){
			at("9"), always(500, "No cluster leader"), always(500, "No cluster leader"), at("9"),
			at("10")}}
		w := store.WatchKey(over(t, sc), "k")
		next(t, w)
		for range 2 {
			_, err := w.Next(t.Context())
			wantKind(t, err, store.ErrUnreachable, true)
		}
		if v := next(t, w); v.Index != 9 {
			t.Errorf("after the error: %+v", v)
		}
		next(t, w)
		want := "consistent= index=9&wait=60000ms consistent= consistent= index=9&wait=60000ms"
		if got := strings.Join(sc.asked, " "); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

func TestAServerThatAlwaysWakesForNothingIsNotAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		w := store.WatchKey(over(t, tripper(func(r *http.Request) (*http.Response, error) {
			polls++
			return at("9")(r)
		})), "k")
		next(t, w)
		quiet(t, w, time.Minute)
		if polls < 5 || polls > 30 {
			t.Errorf("%d polls in a minute", polls)
		}
	})
}

func TestAServerThatStillReplaysItsLogShowsAWatchNothingOfThePast(t *testing.T) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s store.Store) {
		past := consul.Snapshot()
		txn(t, s, store.Set("k", []byte("v"), 0), store.Set("p/k", []byte("v"), 0))
		followed := store.WatchKey(s, "k")
		next(t, followed)
		consul.ElectionStart()
		consul.ElectionEndBehind(past)
		for _, w := range []*store.Watch{store.WatchKey(s, "k"), store.WatchPrefix(s, "p/"),
			followed} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			v, err := w.Next(ctx)
			cancel()
			if err == nil {
				t.Errorf("saw %+v", v)
			}
		}
		if names, _, err := s.ListKeys(t.Context(), "p/", ""); err == nil {
			t.Errorf("listed %q", names)
		}
		consul.ElectionEnd()
		if v := next(t, followed); len(v.Entries) != 1 {
			t.Errorf("after it: %+v", v)
		}
	})
}
