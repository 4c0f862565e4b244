package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/supervisor"
)

// A member begins its config store anew, in the same process, when one of the store's actors has
// failed too often. What counts the writes goes on then: one that is taken for an earlier one is
// acknowledged and never made.
func TestAStoreThatItsSupervisorBeginsAnewTakesNoWriteForAnEarlierOne(t *testing.T) {
	for _, actor := range []string{"consulWriter", "writeQueue"} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/away=%v", actor, away), func(t *testing.T) {
				run(t, func(t *testing.T, r *rig) { beginAnew(t, r, actor, away) })
			})
		}
	}
}

func beginAnew(t *testing.T, r *rig, actor string, away bool) {
	s := startBreakable(t, r, actor)
	for i := range 9 {
		s.put("before", fmt.Sprint(i))
	}
	if away {
		s.net.Cut(errors.New("cut off"))
	}
	s.breakDown()
	time.AfterFunc(5*time.Second, func() { s.net.Cut(nil) })
	for i := range 3 {
		key := fmt.Sprint("after", i)
		_, err := s.Put(r.ctx(time.Minute), key, []byte("v"))
		r.expect(key+" was acknowledged and is", err == nil, r.raw("config_data/"+key) == "v")
		t.Log(key, err)
	}
}

// breakable is a host whose supervisor begins its store anew.
type breakable struct {
	*host
	broken atomic.Bool // one of the store's actors fails whenever it is at work
}

// startBreakable starts one of which the named actor can be broken.
func startBreakable(t *testing.T, r *rig, actor string) *breakable {
	t.Helper()
	s := &breakable{}
	s.host = r.prepare(configstore.WithFault(func(context.Context) error {
		if s.broken.Load() && strings.Contains(string(debug.Stack()), "*"+actor+")") {
			return errors.New("broken")
		}
		return nil
	}))
	root, err := supervisor.New("host", supervisor.Tree{
		Children: []supervisor.Child{s.Child("config-store")}}, supervisor.WithLogger(r.log))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.err = root.Run(ctx)
	}()
	s.ready()
	return s
}

// breakDown has the actor fail until the store is begun anew, and returns when it was.
func (s *breakable) breakDown() {
	s.rig.t.Helper()
	s.broken.Store(true)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		err := error(nil)
		for w := s.Watch("before"); err == nil; {
			_, err = w.Next(context.Background())
		}
	}()
	s.rig.await("an actor that fails too often", 5*time.Minute, func() bool {
		_, _ = s.Put(s.rig.ctx(time.Second), "meanwhile", nil)
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
	time.Sleep(3 * time.Second) // it is begun anew
	s.broken.Store(false)
}

// The write queue is told that another process has the marker, and that it is this one's again.
// A queue that is restarted at that moment hears the latter only.
func TestAWriteThatWaitsWhileAnotherTakesOverIsNotTakenForOneOfIts(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var broken atomic.Bool
		one := func(c *configstore.Config) { c.Owner = "one" }
		a := r.start(one, configstore.WithFault(func(context.Context) error {
			if broken.Load() && strings.Contains(string(debug.Stack()), "*writeQueue)") {
				return errors.New("broken")
			}
			return nil
		})).ready()
		a.put("k", "a")
		b := r.start(one, func(c *configstore.Config) {
			c.Liveness = func(configProcess) configLiveness { return configUnknown }
		}).ready()
		for i := range 9 {
			b.put("k", fmt.Sprint("b", i))
		}
		b.kill()
		a.net.Next(1, func(q *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Millisecond)
			return a.net.To().RoundTrip(q)
		})
		time.AfterFunc(time.Millisecond, func() {
			broken.Store(true)
			_, _ = a.Put(r.ctx(time.Second), "other", nil)
			broken.Store(false)
		})
		_, err := a.Put(r.ctx(time.Minute), "mine", []byte("v"))
		t.Log(err)
		r.expect("it was acknowledged and is", err == nil, r.raw("config_data/mine") == "v")
		time.Sleep(time.Minute)
		a.put("mine", "w")
		r.expect("later on", r.raw("config_data/mine"), "w")
	})
}

func TestNobodyWaitsForAStoreWhoseLogCannotBeOpened(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		dir := filepath.Join(t.TempDir(), "log")
		withLog := func(c *configstore.Config) { c.LogDir = dir }
		r.start(withLog).ready()
		second := r.prepare(withLog)
		waited := make(chan error, 1)
		go func() { waited <- second.WaitLoaded(t.Context()) }()
		second.run()
		<-second.done
		r.expect("its end", errors.Is(second.err, configstore.ErrLog), true)
		time.Sleep(time.Minute)
		select {
		case err := <-waited:
			r.expect("who waited from before", errors.Is(err, configstore.ErrStopped), true)
		default:
			t.Error("who waited from before waits")
		}
		for what, call := range map[string]func(context.Context) error{
			"a write": func(ctx context.Context) error { return second.Delete(ctx, "k") },
			"a watch": func(ctx context.Context) error {
				_, err := second.Watch("k").Next(ctx)
				return err
			},
			"a wait": second.WaitLoaded,
		} {
			if err := call(r.ctx(time.Minute)); !errors.Is(err, configstore.ErrStopped) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// The writes of a store that is begun anew have the numbers of those that it had under way before.
func TestARequestOfBeforeTheStoreWasBegunAnewIsNoWriteOfItsOwn(t *testing.T) {
	for _, actor := range []string{"consulWriter", "writeQueue"} {
		t.Run(actor, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				a := startBreakable(t, r, actor)
				a.put("before", "v")
				a.net.Next(1, func(q *http.Request) (*http.Response, error) {
					a.net.Cut(errors.New("cut off"))
					return transport.Late(r.consul.RoundTripper(), 5*time.Minute)(q)
				})
				arrives := time.Now().Add(5 * time.Minute)
				_, err := a.Put(r.ctx(time.Second), "late", []byte("v"))
				r.expect("the write that is late is acknowledged", err == nil, false)
				a.breakDown()
				a.net.Cut(nil)
				time.Sleep(time.Until(arrives) + time.Second)
				_, err = a.Put(r.ctx(time.Minute), "mine", []byte("v"))
				t.Log(err)
				r.expect("it was acknowledged and is", err == nil, r.raw("config_data/mine") == "v")
			})
		})
	}
}
