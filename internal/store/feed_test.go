package store_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

// pair is a watch and a quiet watch of one prefix, which share their polls. Both store what they
// see.
type pair struct {
	plain, quiet store.Polls
	stopPlain    context.CancelFunc
	hang         atomic.Bool // the polls of the plain watch
	mu           sync.Mutex
	seen         map[string][]string // by watch
	asked        map[string][]string // by watch
}

func (p *pair) note(to map[string][]string, name, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to[name] = append(to[name], what)
}

// take returns what both watches have asked for since the last time.
func (p *pair) take() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := fmt.Sprintf("plain %v quiet %v", p.asked["plain"], p.asked["quiet"])
	clear(p.asked)
	return asked
}

// both tells whether both watches saw the value last.
func (p *pair) both(value string) bool {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	plain, quiet := p.seen["plain"], p.seen["quiet"]
	return len(plain) > 0 && len(quiet) > 0 && plain[len(plain)-1] == value &&
		quiet[len(quiet)-1] == value
}

type watchName struct{}

// way is that of both watches to Consul.
func (p *pair) way(consul *devconsul.Server) tripper {
	return func(r *http.Request) (*http.Response, error) {
		name, _ := r.Context().Value(watchName{}).(string)
		kind := "read"
		if r.URL.Query().Has("index") {
			kind = "poll"
		}
		p.note(p.asked, name, kind)
		resp, err := consul.RoundTripper().RoundTrip(r)
		if err == nil && p.hang.Load() && kind == "poll" && name == "plain" {
			resp.Body.Close()
			return hang(r)
		}
		return resp, err
	}
}

// sharing runs f beside a pair.
func sharing(t *testing.T, f func(p *pair, consul *devconsul.Server, put func(value string))) {
	bubble(t, func(t *testing.T, consul *devconsul.Server, s *store.Store) {
		p := &pair{seen: map[string][]string{}, asked: map[string][]string{}}
		put := func(value string) {
			must(t, s.Put(t.Context(), "p/a", []byte(value), 0))
			synctest.Wait()
		}
		put("first")
		ctx, stop := context.WithCancel(store.SharePolls(t.Context()))
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		one := over(t, p.way(consul))
		follow := func(ctx context.Context, name string, polls *store.Polls,
			change func(*store.Watch)) {
			ctx = context.WithValue(ctx, watchName{}, name)
			w := one.WatchPrefix("p/")
			change(w)
			running.Go(func() {
				for v := range w.Views(ctx, name, polls, w.Next) {
					p.note(p.seen, name, string(v.Entries[0].Value))
				}
			})
			synctest.Wait()
		}
		var plain context.Context
		plain, p.stopPlain = context.WithCancel(ctx)
		follow(plain, "plain", &p.plain, func(*store.Watch) {})
		follow(ctx, "quiet", &p.quiet, func(w *store.Watch) { w.Quiet() })
		f(p, consul, put)
	})
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: asked %s, want %s", what, got, want)
	}
}

func TestAQuietWatchTakesTheViewsOfAnotherOneAndPollsWithoutIt(t *testing.T) {
	sharing(t, func(p *pair, _ *devconsul.Server, put func(string)) {
		want(t, "begin", p.take(), "plain [read poll] quiet [read]")
		put("second")
		if !p.both("second") {
			t.Errorf("saw %v", p.seen)
		}
		want(t, "changed", p.take(), "plain [poll] quiet []")
		p.quiet.Renew()
		want(t, "the quiet one is renewed", p.take(), "plain [] quiet [read]")
		p.plain.Renew()
		want(t, "the other one is renewed", p.take(), "plain [read poll] quiet []")
		p.stopPlain()
		want(t, "alone", p.take(), "plain [] quiet [poll]")
		put("third")
		if seen := p.seen["quiet"]; !slices.Equal(seen, []string{"first", "second", "second",
			"third"}) {
			t.Errorf("saw %v", seen)
		}
	})
}

func TestAQuietWatchDoesNotCountOnAPollThatIsBehind(t *testing.T) {
	sharing(t, func(p *pair, _ *devconsul.Server, put func(string)) {
		p.take()
		p.hang.Store(true)
		put("missed") // by the poll that is under way, and so by both
		if p.both("missed") {
			t.Error("the poll did not hang")
		}
		p.quiet.Renew()
		want(t, "renewed", p.take(), "plain [] quiet [read poll]")
		put("next")
		if seen := p.seen["quiet"]; seen[len(seen)-1] != "next" {
			t.Errorf("beside a dead poll: saw %v", seen)
		}
		p.take()
		p.hang.Store(false)
		time.Sleep(2 * time.Minute) // the dead poll is given up
		if !p.both("next") {
			t.Errorf("saw %v", p.seen)
		}
		p.take()
		put("last")
		if !p.both("last") {
			t.Errorf("saw %v", p.seen)
		}
		want(t, "caught up", p.take(), "plain [poll] quiet []")
	})
}

func TestAQuietWatchReadsAnewWhenTheOtherOneSeesAnOlderIndex(t *testing.T) {
	sharing(t, func(p *pair, consul *devconsul.Server, put func(string)) {
		snapshot := consul.Snapshot()
		for i := range 5 {
			put(fmt.Sprint(i))
		}
		p.take()
		if err := consul.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		time.Sleep(store.DefaultPollWait + time.Second) // a poll ends
		if !p.both("first") {
			t.Errorf("saw %v", p.seen)
		}
		want(t, "restored", p.take(), "plain [poll read poll] quiet [read]")
	})
}
