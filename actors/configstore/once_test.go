package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// takes tells what became of an attempt to take a lock: a key that must not exist.
func (h *host) takes(key string) string {
	switch _, err := h.CompareAndSet(h.rig.ctx(time.Minute), key, []byte("held"), 0); {
	case err == nil:
		return "taken"
	case errors.Is(err, configstore.ErrConflict):
		return "refused"
	default:
		return err.Error()
	}
}

func TestALockThatAnotherHoldsIsRefusedAlsoWhenTheMarkerIsGone(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		a, b := r.start().ready(), r.start().ready()
		b.put("k", "1")
		snapshot := r.consul.Snapshot()
		b.put("k", "2") // what the snapshot does not have
		r.expect("a", a.takes("lock"), "taken")
		r.strangerDeletes("config_log/m2")
		r.expect("b, whose marker was deleted", b.takes("lock"), "refused")
		r.stranger("config_log/m2", "garbage")
		r.expect("b, whose marker was overwritten", b.takes("lock"), "refused")

		b.put("k", "3")
		must(t, r.consul.Restore(snapshot))
		r.await("a sees that the lock is gone", time.Minute, func() bool {
			return a.get("lock") == "-"
		})
		r.expect("a, anew", a.takes("lock"), "taken")
		r.expect("b, whose marker is that of the snapshot", b.takes("lock"), "refused")
		r.expect("locks taken", r.times("lock=held"), 2)
	})
}

func TestOfALockThatMayHaveBeenTakenBeforeTheMarkerWasLostNobodySaysWhose(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		for i, take := range []transport.Func{
			s.net.Lose, // it is ours
			func(req *http.Request) (*http.Response, error) { // it is another's
				r.stranger(fmt.Sprint("config_data/lock", 1), "held")
				return nil, transport.ErrReset
			},
			// it was ours, and somebody has taken it since
			func(req *http.Request) (*http.Response, error) {
				resp, err := s.net.Lose(req)
				r.stranger(fmt.Sprint("config_data/lock", 2), "theirs")
				return resp, err
			},
		} {
			s.put("k", fmt.Sprint(i))
			s.net.Next(1, func(req *http.Request) (*http.Response, error) {
				defer r.strangerDeletes("config_log/m1")
				return take(req)
			})
			_, err := s.CompareAndSet(r.ctx(time.Minute), fmt.Sprint("lock", i), []byte("held"), 0)
			if !errors.Is(err, configstore.ErrUnreachable) ||
				errors.Is(err, configstore.ErrConflict) {
				t.Errorf("lock %d: it is not known whose it is, and the caller hears %v", i, err)
			}
		}
		s.put("k", "last")
	})
}

func TestARefusedWriteStaysRefusedWhenACopyOfItArrivesLate(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		index := func() uint64 {
			p, _, err := r.consul.Client().KV().Get("service/demo/config_data/k", nil)
			must(t, err)
			return p.ModifyIndex
		}
		const ahead = 40
		gone := func() { r.strangerDeletes("config_data/k") }
		for _, c := range []struct {
			what  string
			write func() error
			then  func() // makes the condition hold that did not
		}{
			{"a create", func() error {
				_, err := s.CompareAndSet(t.Context(), "k", []byte("late"), 0)
				return err
			}, gone},
			{"a transaction that wants no key", func() error {
				_, err := s.Txn(t.Context(), configstore.Expect("k", 0),
					configstore.Set("m", []byte("late")))
				return err
			}, gone},
			{"an index that is yet to come", func() error {
				_, err := s.CompareAndSet(t.Context(), "k", []byte("late"), index()+ahead)
				return err
			}, func() {
				for want, i := index()+ahead, 0; index() < want; i++ {
					r.stranger("config_data/k", fmt.Sprint(i))
				}
			}},
		} {
			r.stranger("config_data/k", c.what)
			s.net.Next(1, s.net.Twice(8*time.Second))
			if err := c.write(); !errors.Is(err, configstore.ErrConflict) {
				t.Errorf("%s: %v", c.what, err)
			}
			c.then()
			k := r.raw("config_data/k")
			time.Sleep(time.Minute)
			r.expect(c.what+": k", r.raw("config_data/k"), k)
			r.expect(c.what+": m", r.raw("config_data/m"), "-")
		}
	})
}

func TestADeniedWriteStaysDeniedWhenACopyOfItArrivesLate(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			_, _ = s.net.Late(8 * time.Second)(req)
			return denied(req)
		})
		if _, err := s.Put(t.Context(), "k", []byte("late")); !errors.Is(err,
			configstore.ErrDenied) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		r.expect("k", r.raw("config_data/k"), "-")
	})
}

// alive is a process that lives on when its store has stopped, as a host does that starts another
// one.
func alive(c *configstore.Config) {
	c.Liveness = func(configProcess) configLiveness { return configAlive }
}

func TestACopyOfTheMarkersCreationThatArrivesLateBlocksNobody(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		one := func(c *configstore.Config) { c.Owner = "one" }
		s := r.prepare(one)
		for i := range 4 { // all that the store sends until it can write, and its first writes
			s.net.Next(i+1, s.net.Twice(time.Minute))
		}
		s.run()
		s.ready().put("k", "1")
		s.stop()
		r.expect("the marker", r.raw("config_log/one"), "-")
		r.strangerDeletes("config_data/root")
		time.Sleep(2 * time.Minute)
		r.expect("root, written by a late copy", r.raw("config_data/root"), "-")
		next := r.start(one, alive)
		if _, err := next.Put(r.ctx(time.Minute), "k", []byte("2")); err != nil {
			t.Errorf("nobody writes under this name: %v", err)
		}
		next.stop()
		r.expect("the marker at last", r.raw("config_log/one"), "-")
	})
}

func TestACopyOfAWriteThatMadeTheMarkerAnewDoesNothing(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.put("other", "1")
		r.strangerDeletes("config_log/m1")
		for i := range 3 { // the first is refused, and shows that the marker is gone
			s.net.Next(i+1, s.net.Twice(8*time.Second))
		}
		if _, err := s.CompareAndSet(t.Context(), "k", []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
		r.strangerDeletes("config_data/k")
		r.strangerDeletes("config_log/m1")
		time.Sleep(time.Minute)
		r.expect("k", r.raw("config_data/k"), "-")
		r.expect("writes of k", r.times("k=v"), 1)
		s.put("other", "2")
	})
}

func TestACleanStopLeavesNoMarkerBehindHoweverItsRequestsFared(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		left := func(what string) {
			keys, _, err := r.consul.Client().KV().Keys("service/demo/config_log/", "", nil)
			if err != nil || len(keys) != 0 {
				t.Errorf("%s: left behind: %v %v", what, keys, err)
			}
		}
		for _, c := range []struct {
			what string
			opts []func(*configstore.Config)
		}{{"without a log", nil}, {"with a log", []func(*configstore.Config){
			logged(dir)}}, {"with it again", []func(*configstore.Config){logged(dir)}}} {
			s := r.start(c.opts...).ready()
			s.net.Next(1, s.net.Lose)
			s.put("k", "1"+c.what)
			s.net.Next(1, s.net.Late(time.Minute))
			s.put("k", "2"+c.what)
			s.stop()
			left(c.what)
			time.Sleep(2 * time.Minute)
			left(c.what + ", later")
			r.expect("k", r.raw("config_data/k"), "2"+c.what)
			r.expect("writes", fmt.Sprint(r.times("k=1"+c.what), r.times("k=2"+c.what)), "1 1")
		}
		s := r.start(logged(dir)).ready()
		synctest.Wait() // its marker is written beside the first reading
		s.net.Cut(errors.New("cut off"))
		if _, err := s.Put(r.ctx(time.Second), "k", []byte("later")); !errors.Is(err,
			configstore.ErrPending) {
			t.Fatal(err)
		}
		s.stop() // what waits in the log counts on the marker
		s = r.start(logged(dir)).ready()
		r.await("it is sent", time.Minute, func() bool {
			q := s.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		s.stop()
		left("with a log that is empty again")
		r.expect("k", r.raw("config_data/k"), "later")
	})
}

// A log that is begun anew has another marker. One that nobody could delete at the stop would stay
// for good.
func TestAStopWithoutConsulLeavesNoMarkerForGood(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		for _, fare := range []func(*host){
			func(h *host) { h.net.Cut(errors.New("cut off")) },
			func(h *host) { h.net.Next(1, h.net.Lose) }, // it is deleted, and nobody hears of it
			func(h *host) { h.net.Next(1, h.net.Late(time.Minute)) },
		} {
			s := r.start(logged(dir)).ready()
			s.put("k", "1")
			fare(s)
			s.stop()
			time.Sleep(2 * time.Minute)
			s = r.start(logged(dir)).ready()
			s.put("k", "2")
			s.stop()
			keys, _, err := r.consul.Client().KV().Keys("service/demo/config_log/", "", nil)
			if err != nil || len(keys) != 0 {
				t.Errorf("left behind: %v %v", keys, err)
			}
			r.expect("k", r.raw("config_data/k"), "2")
		}
	})
}
