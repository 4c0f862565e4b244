package configstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// slowly carries the answers to requests that pick names with a delay.
func slowly(w *transport.Wire, delay time.Duration, pick func(*http.Request) bool) {
	to := w.To()
	w.Via(transport.Func(func(r *http.Request) (*http.Response, error) {
		resp, err := to.RoundTrip(r)
		if err != nil || !pick(r) {
			return resp, err
		}
		if err := transport.Wait(r, delay); err != nil {
			resp.Body.Close()
			return nil, err
		}
		return resp, nil
	}))
}

func isTxn(r *http.Request) bool { return r.URL.Path == "/v1/txn" }

func TestAWriteThatIsUnderWayWhenTheStoreStopsIsToldAndLeavesNothingBehind(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.prepare()
		slowly(s.net, time.Second, isTxn)
		s.run()
		s.ready()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Put(t.Context(), "k", []byte("v")); err != nil {
				t.Errorf("it was written, and the caller is told: %v", err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		s.stop()
		wg.Wait()
		r.expect("k", r.raw("config_data/k"), "v")
	})
}

func TestNobodyWaitsForAStoreThatHasStopped(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "v")
		time.Sleep(time.Second) // the cache shows it
		w := s.Watch("k")
		if _, err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.Next(t.Context()); !errors.Is(err, configstore.ErrStopped) {
				t.Errorf("a watch: %v", err)
			}
		})
		time.Sleep(time.Second)
		s.stop()
		wg.Wait()
		if _, err := s.Put(t.Context(), "k", nil); !errors.Is(err, configstore.ErrStopped) {
			t.Errorf("a write: %v", err)
		}
		never := r.prepare()
		never.net.Cut(errors.New("cut off"))
		never.run()
		wg.Go(func() {
			if err := never.WaitLoaded(t.Context()); !errors.Is(err, configstore.ErrStopped) {
				t.Errorf("the first reading: %v", err)
			}
		})
		time.Sleep(time.Second)
		never.stop()
		wg.Wait()
	})
}

func TestReadYourWritesHoldsWhenConsulCameBackEmpty(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for i := range 20 {
			s.put(fmt.Sprint("k", i%5), fmt.Sprint(i))
		}
		snapshot := r.consul.Snapshot()
		s.put("k0", "forgotten")
		time.Sleep(time.Second)
		r.consul.Reset()
		s.put("k0", "new")
		r.expect("k0 after Consul came back empty", s.get("k0"), "new")
		s.put("k0", "newer")
		r.expect("k0 once more", s.get("k0"), "newer")
		time.Sleep(time.Minute)
		r.expect("k1", s.get("k1"), "-")
		must(t, r.consul.Restore(snapshot))
		// The names in the sequence key are of another history: the first write may be in doubt.
		_, _ = s.Put(r.ctx(time.Minute), "other", []byte("1"))
		s.put("k1", "newest")
		r.expect("k1 after Consul was restored", s.get("k1"), "newest")
	})
}

func TestReadYourWritesHoldsWhereAnswersHaveNoIndex(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "old")
		to := s.net.To()
		s.net.Via(transport.Func(func(q *http.Request) (*http.Response, error) {
			if q.URL.Query().Has("index") {
				return transport.Hang(q)
			}
			resp, err := to.RoundTrip(q)
			if err == nil && resp.Header.Get("X-Consul-Index") != "" {
				resp.Header.Set("X-Consul-Index", "0")
			}
			return resp, err
		}))
		time.Sleep(time.Minute)
		s.put("k", "new")
		for range 60 {
			time.Sleep(time.Second)
			r.expect("k", s.get("k"), "new")
		}
	})
}

func TestACacheIsNotBelievedBeforeItShowsWhatWasRead(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var s *host
		var early atomic.Int32
		s = r.prepare(configstore.WithFault(func(context.Context) error {
			if e, ok := s.Data().Get().Get("k"); ok && string(e.Value) == "old" &&
				r.raw("config_data/k") == "new" && s.Fresh() {
				early.Add(1)
			}
			return nil
		}))
		s.run()
		s.ready()
		s.put("k", "old")
		s.net.Cut(errors.New("cut off"))
		time.Sleep(time.Minute)
		r.stranger("config_data/k", "new")
		s.net.Cut(nil)
		r.await("it is fresh again", time.Minute, s.Fresh)
		r.expect("k", s.get("k"), "new")
		r.expect("how often the old value was believed", early.Load(), 0)
	})
}

func TestAWatchOfAKeyThatCannotBeSaysSo(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for _, key := range []string{"", "/k", "a//b", "a/../b", "k/", "k\ufffd"} {
			if _, err := s.Watch(key).Next(t.Context()); !errors.Is(err, configstore.ErrInvalid) {
				t.Errorf("%q: %v", key, err)
			}
		}
	})
}

func TestOddKeysMeanTheSameToReadersAndWriters(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a, b := r.start().ready(), r.start().ready()
		keys := []string{"a b", "größe/ключ/鍵", "100%", "k%41", "A", "a", "dots...in/it",
			"q?x=1&y#z", `quote"back\slash`, "+", "config_data/nested", "root2"}
		for i, key := range keys {
			a.put(key, fmt.Sprint(i))
			a.put(key+".empty", "")
		}
		time.Sleep(time.Second)
		for i, key := range keys {
			e, err := b.Get(r.ctx(time.Minute), key)
			if err != nil || string(e.Value) != fmt.Sprint(i) {
				t.Errorf("%q: %q, %v", key, e.Value, err)
			}
			r.expect("empty "+key, b.get(key+".empty"), "")
			e, err = b.Read(r.ctx(time.Minute), key)
			must(t, err)
			r.expect("asked of Consul "+key, string(e.Value), i)
			must(t, a.CompareAndDelete(r.ctx(time.Minute), key, e.Index))
		}
	})
}

func TestAFullLogRefusesWritesAndTakesThemAgainOnceTheOthersAreThrough(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		const most = 20_000
		s := r.start(logged(dir), func(c *configstore.Config) { c.MaxLogBytes = most }).ready()
		file := func() int64 {
			info, err := os.Stat(filepath.Join(dir, "log"))
			must(t, err)
			return info.Size()
		}
		for round := range 3 {
			s.net.Cut(errors.New("cut off"))
			taken := 0
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_, err := s.Put(ctx, fmt.Sprint("k", taken), bytes.Repeat([]byte{byte('a' + round)},
					500))
				cancel()
				if errors.Is(err, configstore.ErrFull) {
					break
				}
				if !errors.Is(err, configstore.ErrPending) || taken > 100 {
					t.Fatal(taken, err)
				}
				taken++
			}
			if taken < 5 {
				t.Errorf("round %d: it was full after %d writes", round, taken)
			}
			if file() > most {
				t.Errorf("the log has %d bytes", file())
			}
			s.net.Cut(nil)
			r.await("all are through", time.Minute, func() bool {
				return s.Queue().Get().Waiting == 0
			})
			for i := range taken {
				r.expect("value", r.raw(fmt.Sprint("config_data/k", i)),
					strings.Repeat(string(rune('a'+round)), 500))
			}
			s.put("after", fmt.Sprint(round))
		}
		for i := range 300 { // what is over makes room
			s.put("k", strings.Repeat("x", 400)+fmt.Sprint(i))
		}
		if file() > 2*most {
			t.Errorf("the log has %d bytes, and nothing waits", file())
		}
	})
}
