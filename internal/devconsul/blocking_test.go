package devconsul_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// TestBlockingQueriesWakeForWhatWakesThemInConsul holds cases that were run against Consul 1.22.7,
// where every one came out as it says here.
func TestBlockingQueriesWakeForWhatWakesThemInConsul(t *testing.T) {
	const (
		wakes  = true
		blocks = false
	)
	for _, c := range []struct {
		name       string
		given      string // keys, or requests
		watch      string
		when       string
		wake       bool
		indexMoved bool
	}{
		{"key written", "w/a", "w/a", "w/a=2", wakes, true},
		{"key written as it is", "w/a=s", "w/a", "w/a=s", blocks, false},
		{"key's flags", "w/a=s", "w/a", "w/a?flags=3=s", wakes, true},
		{"key's neighbours", "w/a", "w/a", "w/b w/aa w/", blocks, false},
		{"key deleted", "w/a", "w/a", "-w/a", wakes, true},
		{"key deleted with its prefix", "w/a", "w/a", "-w/?recurse", wakes, true},
		{"missing key made", "", "w/new", "w/new", wakes, true},
		{"missing key's neighbours", "w/x", "w/new", "w/newx w/ne w/n", blocks, true},
		{"missing key in an empty store", "", "q", "zz", blocks, true},
		{"prefix, key written", "p/a p/b", "p/?recurse", "p/a=5", wakes, true},
		{"prefix, key added", "p/a p/b", "p/?recurse", "p/c", wakes, true},
		{"prefix, key deleted", "p/a p/b", "p/?recurse", "-p/b", wakes, true},
		{"prefix, all deleted", "p/a", "p/?recurse", "-p/?recurse", wakes, true},
		{"prefix, others", "p/a q/a", "p/?recurse", "q/a=5 q/b p pp/a", blocks, false},
		{"keys, value written", "p/a", "p/?keys", "p/a=7", wakes, true},
		{"keys, written below the separator", "p/a/b", "p/?keys&separator=/", "p/a/c", wakes, true},
		{"empty prefix, far neighbour", "p0/a p1/a z/a", "p/?recurse", "z/b", blocks, false},
		{"empty prefix, neighbour below the same branch", "a/m1/x a/m10/x", "a/m2/?recurse",
			"a/m10/y", wakes, true},
		{"empty prefix, that neighbour's value", "a/m1/x a/m10/x", "a/m2/?recurse", "a/m10/x=n",
			wakes, true},
		{"prefix with a sentinel", "a/m1/x a/m2/ a/m10/x", "a/m2/?recurse",
			"a/m10/y a/m1/x=n a/m3/x", blocks, false},
		{"emptied prefix, neighbour", "e/m1/x e/m2/x -e/m2/x", "e/m2/?recurse", "e/m1/y", blocks,
			false},
		{"prefix emptied from above, neighbour", "f/m1/x f/m2/x -f/?recurse", "f/m2/?recurse",
			"f/m1/y", wakes, true},
		{"whole store", "", "?recurse", "any", wakes, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w world) {
				w.edit(c.given)
				before := w.call("GET /v1/kv/" + c.watch).index(t)
				p := w.watch(context.Background(), "/v1/kv/"+c.watch, "10s")
				w.edit(c.when)
				<-p.done
				if woke := p.took == 0; woke != c.wake {
					t.Errorf("returned after %v", p.took)
				}
				if moved := p.a.index(t) > before; moved != c.indexMoved {
					t.Errorf("index went from %d to %d", before, p.a.index(t))
				}
			})
		})
	}
}

// edit applies "key", "key=value" and "-key" (delete), separated by blanks.
func (w world) edit(edits string) {
	for e := range strings.FieldsSeq(edits) {
		if key, ok := strings.CutPrefix(e, "-"); ok {
			w.want("DELETE /v1/kv/"+key, 200, "true")
			continue
		}
		path, value := e, "v"
		if i := strings.LastIndex(e, "="); i >= 0 {
			path, value = e[:i], e[i+1:]
		}
		w.want("PUT /v1/kv/"+path+" "+value, 200, "true")
	}
}

func TestWaitIsFiveMinutesUnlessSaidAndTenAtMost(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a")
		for wait, want := range map[string]time.Duration{
			"": 5 * time.Minute, "0s": 5 * time.Minute, "7s": 7 * time.Second,
			"1h": 10 * time.Minute,
		} {
			p := w.watch(context.Background(), "/v1/kv/a", wait)
			if <-p.done; p.took != want {
				t.Errorf("wait=%s took %v, want %v", wait, p.took, want)
			}
		}
	})
}

func TestJitterIsASixteenthOfTheWaitAtMost(t *testing.T) {
	bubbleWith(t, devconsul.Config{}, func(w world) {
		w.call("PUT /v1/kv/a")
		seen := make(map[time.Duration]bool)
		for range 50 {
			p := w.watch(context.Background(), "/v1/kv/a", "16s")
			<-p.done
			if p.took < 16*time.Second || p.took >= 17*time.Second {
				t.Errorf("took %v", p.took)
			}
			seen[p.took] = true
		}
		if len(seen) < 2 {
			t.Error("no jitter")
		}
	})
}

func TestEndOfTheContextEndsABlockingQueryAtOnce(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a")
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		p := w.watch(ctx, "/v1/kv/a", "5m")
		<-p.done
		if !errors.Is(p.err, context.DeadlineExceeded) || p.took != 3*time.Second {
			t.Errorf("%v after %v", p.err, p.took)
		}
		// The same through the client, with a query that is given up by hand.
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, _, err := w.c.KV().Get("a",
			(&api.QueryOptions{WaitIndex: w.key("a").ModifyIndex}).WithContext(ctx))
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestCloseEndsBlockingQueriesAndRefusesRequests(t *testing.T) {
	bubble(t, func(w world) {
		w.call("PUT /v1/kv/a")
		p := w.watch(context.Background(), "/v1/kv/a", "5m")
		w.s.Close()
		<-p.done
		if p.err == nil || p.took != 0 {
			t.Errorf("%v after %v", p.err, p.took)
		}
		if _, err := w.do(context.Background(), "GET", "/v1/kv/a", ""); err == nil ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestSessionsAreWatched(t *testing.T) {
	bubble(t, func(w world) {
		s := w.session(`{"Checks":[]}`)
		for _, c := range []struct {
			watch, when string
			wake        bool
		}{
			{"list", "PUT /v1/session/create", true},
			{"list", "PUT /v1/session/renew/" + s, false},
			{"info/" + s, "PUT /v1/session/create", false},
			{"node/coordd-dev", "PUT /v1/session/create", true},
			{"node/coordd-dev", "PUT /v1/kv/a", false},
			{"info/none", "PUT /v1/session/create", false},
			{"info/" + s, "PUT /v1/session/destroy/" + s, true},
		} {
			p := w.watch(context.Background(), "/v1/session/"+c.watch, "10s")
			w.call(c.when)
			<-p.done
			if woke := p.took == 0; woke != c.wake {
				t.Errorf("%s, %s: returned after %v", c.watch, c.when, p.took)
			}
		}
	})
}

// A real server 1.22.7 does so even if nobody writes: 27 for 15 minutes after the delete, then 20.
func TestTheIndexOfAPrefixGoesBackWhenItsTombstonesGo(t *testing.T) {
	bubble(t, func(w world) {
		w.edit("p/a p/b -p/b")
		gone := w.call("GET /v1/kv/p/?recurse").index(t)
		time.Sleep(15*time.Minute - time.Second)
		if now := w.call("GET /v1/kv/p/?recurse").index(t); now != gone {
			t.Errorf("index %d after a quarter of an hour, was %d at the delete", now, gone)
		}
		time.Sleep(time.Minute)
		w.edit("q/1")
		now := w.call("GET /v1/kv/p/?recurse").index(t)
		if a := w.call("GET /v1/kv/p/a").index(t); now != a || now >= gone {
			t.Errorf("index %d after 16 minutes, want %d, that of the key that is left", now, a)
		}
		p := w.watch(context.Background(), fmt.Sprintf("/v1/kv/p/?recurse&index=%d", gone), "1m")
		if <-p.done; p.took < time.Minute || p.a.index(t) != now {
			t.Errorf("a poll from %d ended after %v with %d", gone, p.took, p.a.index(t))
		}
	})
}

// TestWatchersOfOtherKeysCostAWriteNothing: each watcher returns once for its own key, whatever
// else is written.
func TestWatchersOfOtherKeysCostAWriteNothing(t *testing.T) {
	const members, writes = 300, 3_000
	bubble(t, func(w world) {
		for m := range members {
			w.edit(fmt.Sprintf("assignments/m%03d/", m))
		}
		var polls []*poll
		for m := range members {
			polls = append(polls, w.watch(context.Background(),
				fmt.Sprintf("/v1/kv/assignments/m%03d/?recurse", m), "5m"))
		}
		for i := range writes {
			w.edit(fmt.Sprintf("assignments/other/w%d", i))
		}
		synctest.Wait()
		for m, p := range polls {
			select {
			case <-p.done:
				t.Fatalf("watcher %d woke", m)
			default:
			}
		}
		for m := range members {
			w.edit(fmt.Sprintf("assignments/m%03d/w", m))
		}
		for _, p := range polls {
			if <-p.done; p.took != 0 || strings.Count(p.a.body, `"Key"`) != 2 {
				t.Errorf("%v after %v", p.a.body, p.took)
			}
		}
	})
}
