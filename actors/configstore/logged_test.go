package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

var denied = transport.Always(http.StatusForbidden, "Permission denied")

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

// The names under the sequence key no longer reach back to the write.
func TestALoggedWriteOfWhichNobodyCanTellIsKeptAndNamed(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "1")
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			defer s.net.Cut(errors.New("killed"))
			return s.net.Lose(req)
		})
		for _, value := range []string{"first", "second"} {
			if _, err := s.Put(r.ctx(time.Second), value, []byte(value)); !errors.Is(err,
				configstore.ErrPending) {
				t.Fatal(err)
			}
		}
		s.kill()
		r.strangerDeletes("config_data/first")
		keys, _, err := r.consul.Client().KV().Keys("service/demo/sequence/config/", "", nil)
		must(t, err)
		for _, key := range keys {
			r.stranger(strings.TrimPrefix(key, "service/demo/"), strings.Repeat("ABCDEFGH ", 128))
		}
		next := r.start(logged(dir)).ready()
		next.settled()
		r.expect("writes", fmt.Sprint(r.times("first=first"), r.times("second=second")), "1 1")
		q := next.Queue().Get()
		if q.Refused != 1 || !strings.Contains(q.Conflicts[0].Error, "may have been applied") ||
			q.Conflicts[0].Keys[0] != "first" {
			t.Errorf("reported: %+v", q)
		}
	})
}
