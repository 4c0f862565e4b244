package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func logged(dir string) func(*configstore.Config) {
	return func(c *configstore.Config) { c.LogDir = dir }
}

func TestALoggedWriteSurvivesTheOutageAndTheCrash(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("a", "0")
		s.put("mine", "0")
		s.net.Cut(errors.New("cut off"))
		var wg sync.WaitGroup
		for i, key := range []string{"a", "a", "b", "mine"} {
			wg.Go(func() {
				_, err := s.Put(r.ctx(5*time.Second), key, fmt.Append(nil, i+1))
				if !errors.Is(err, configstore.ErrPending) ||
					!errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("put %s: %v", key, err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		q := s.Queue().Get()
		r.expect("waiting and logged", fmt.Sprint(q.Waiting, q.Logged), "4 4")
		s.kill()
		r.expect("a, before", r.raw("config_data/a"), "0")
		r.stranger("config_data/mine", "theirs")

		next := r.start(logged(dir)).ready()
		r.await("all are written or refused", time.Minute, func() bool {
			return next.Queue().Get().Waiting == 0
		})
		r.expect("a", next.get("a"), "2")
		r.expect("b", next.get("b"), "3")
		r.expect("what another has written since", next.get("mine"), "theirs")
		r.expect("writes", fmt.Sprint(r.times("a=1"), r.times("a=2"), r.times("b=3"),
			r.times("mine=4")), "1 1 1 0")
		q = next.Queue().Get()
		if q.Refused != 1 || len(q.Conflicts) != 1 || q.Conflicts[0].Keys[0] != "mine" {
			t.Errorf("reported: %+v", q)
		}
		kept, err := os.ReadFile(filepath.Join(dir, "conflicts"))
		if err != nil || !strings.Contains(string(kept), `"value":"NA=="`) {
			t.Errorf("kept: %s, %v", kept, err)
		}
		next.stop()
		last := r.start(logged(dir)).ready()
		r.expect("waiting", last.Queue().Get().Waiting, 0)
		last.put("a", "9")
		r.expect("writes", fmt.Sprint(r.times("a=1"), r.times("a=2"), r.times("b=3")), "1 1 1")
	})
}

func TestAWriteThatWasAppliedWhenItsProcessDiedIsNotAppliedAgain(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		for i := range 6 {
			s := r.start(logged(dir)).ready()
			r.await("what the last one left is through", time.Minute, func() bool {
				q := s.Queue().Get()
				return q.Ready && q.Waiting == 0
			})
			value := fmt.Sprint(i)
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				if i%2 == 0 {
					defer s.net.Cut(errors.New("killed"))
					return s.net.Lose(req)
				}
				s.net.Cut(errors.New("killed"))
				return s.net.Late(time.Minute)(req)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := s.Put(ctx, "k", []byte(value)); !errors.Is(err, configstore.ErrPending) {
				t.Fatal(i, err)
			}
			cancel()
			s.kill()
		}
		last := r.start(logged(dir)).ready()
		r.await("all are through", time.Minute, func() bool {
			return last.Queue().Get().Waiting == 0
		})
		time.Sleep(2 * time.Minute)
		for i := range 6 {
			r.expect(fmt.Sprintf("writes of %d", i), r.times(fmt.Sprintf("k=%d", i)), 1)
		}
		r.expect("k", last.get("k"), "5")
		r.expect("refused", last.Queue().Get().Refused, 0)
	})
}

// Sealing a denied write may take long. Its caller has left by then, and counts on the log. The
// marker is denied as well, so there is no limit.
func TestALoggedWriteThatIsDeniedWithTheMarkerIsTriedUntilItIsGranted(t *testing.T) {
	type odd = transport.Func
	for _, c := range []struct {
		what  string
		tries func(*transport.Wire) []odd
	}{
		{"lost, then denied", func(*transport.Wire) []odd { return []odd{unanswered, denied} }},
		{"late, then denied", func(n *transport.Wire) []odd {
			return []odd{n.Late(20 * time.Second), denied}
		}},
		{"denied at once", func(*transport.Wire) []odd { return []odd{denied} }},
	} {
		dir := t.TempDir()
		run(t, func(t *testing.T, r *rig) {
			s := r.start(logged(dir)).ready()
			s.put("other", "1")
			begin := time.Now()
			tries := c.tries(s.net)
			for len(tries) < 60 {
				tries = append(tries, func(req *http.Request) (*http.Response, error) {
					switch since := time.Since(begin); {
					case since < 15*time.Second:
						return unanswered(req)
					case since < time.Minute:
						return denied(req)
					}
					return s.net.To().RoundTrip(req)
				})
			}
			for i, try := range tries {
				s.net.Next(i+1, try)
			}
			if _, err := s.Put(r.ctx(10*time.Second), "k", []byte("1")); !errors.Is(err,
				configstore.ErrPending) {
				t.Errorf("%s: the caller leaves after 10 s and hears: %v", c.what, err)
			}
			r.await("nothing waits", 5*time.Minute, func() bool {
				return s.Queue().Get().Waiting == 0
			})
			r.expect(c.what+": k", r.raw("config_data/k"), "1")
			r.expect(c.what+": writes", r.times("k=1"), 1)
			r.expect(c.what+": refused", s.Queue().Get().Refused, 0)
		})
	}
}

var (
	unanswered = transport.Fail(transport.ErrReset)
	// no connection comes about: the request cannot have arrived
	unsent = transport.Fail(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	denied = transport.Always(http.StatusForbidden, "Permission denied")
)

func TestTwoProcessesUnderOneNameAreRefused(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		one := func(c *configstore.Config) { c.Owner = "one" }
		a := r.start(one).ready()
		a.put("k", "a")
		b := r.start(one) // it can see that a lives
		if _, err := b.Put(r.ctx(10*time.Second), "k", []byte("b")); !errors.Is(err,
			configstore.ErrTaken) {
			t.Errorf("the second of two: %v", err)
		}
		r.expect("reads work", b.get("k"), "a")
		a.put("k", "a2")
		a.stop()
		r.await("the second may", 10*time.Second, func() bool { return b.Queue().Get().Err == nil })
		b.put("k", "b")
		// One on another host cannot see it, and takes over: then the first is refused.
		c := r.start(one, func(c *configstore.Config) {
			c.Liveness = func(p configProcess) configLiveness { return configUnknown }
		}).ready()
		c.put("k", "c")
		if _, err := b.Put(r.ctx(10*time.Second), "k", []byte("b2")); !errors.Is(err,
			configstore.ErrTaken) {
			t.Errorf("the one that was taken over: %v", err)
		}
		c.put("k", "c2")
		r.expect("k", r.raw("config_data/k"), "c2")
	})
}

func TestALogIsOneProcessesAndOneServices(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		a := r.start(logged(dir)).ready()
		b := r.start(logged(dir))
		<-b.done
		if b.err == nil || !strings.Contains(b.err.Error(), "in use by another process") {
			t.Errorf("the second: %v", b.err)
		}
		a.stop()
		c := r.start(logged(dir), func(c *configstore.Config) { c.Service = "other" })
		<-c.done
		if c.err == nil || !strings.Contains(c.err.Error(), `service "demo"`) {
			t.Errorf("another service's: %v", c.err)
		}
	})
}

func TestAMarkerThatAStrangerTouchesCostsNothing(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "1")
		r.strangerDeletes("config_log/m1")
		s.put("k", "2")
		r.stranger("config_log/m1", "garbage")
		s.put("k", "3")
		s.put("k", "4")
		r.expect("writes", fmt.Sprint(r.times("k=1"), r.times("k=2"), r.times("k=3"),
			r.times("k=4")), "1 1 1 1")
		s.stop()
		r.stranger("config_log/m1", "garbage")
		next := r.start(func(c *configstore.Config) { c.Owner = "m1" }).ready()
		next.put("k", "5")
	})
}

func TestACleanStopLeavesNoMarkerBehind(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("k", "1")
		r.expect("there is one while it runs", r.raw("config_log/m1") != "-", true)
		s.stop()
		r.expect("the marker", r.raw("config_log/m1"), "-")
	})
}
