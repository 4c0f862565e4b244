package supervisor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/supervisor"
)

var errBoom = errors.New("boom")

func boom() error { return errBoom }

// ways to end while nobody has asked.
var ways = []struct {
	name string
	f    func() error
	kind supervisor.Kind
	is   func(error) bool
}{
	{"nil", func() error { return nil }, supervisor.KindNil, func(err error) bool {
		return errors.Is(err, supervisor.ErrReturned)
	}},
	{"error", boom, supervisor.KindError, func(err error) bool { return errors.Is(err, errBoom) }},
	{"panic", func() error { panic("ouch") }, supervisor.KindPanic, func(err error) bool {
		var p *supervisor.PanicError
		return errors.As(err, &p) && p.Value == "ouch" && len(p.Stack) > 0
	}},
	{"panic with an error", func() error {
		panic(errBoom)
	}, supervisor.KindPanic, func(err error) bool { return errors.Is(err, errBoom) }},
	{"panic(nil)", func() error { panic(nil) }, supervisor.KindPanic, func(err error) bool {
		var p *runtime.PanicNilError
		return errors.As(err, &p)
	}},
	{"goexit", func() error {
		runtime.Goexit()
		return nil
	}, supervisor.KindGoexit, func(err error) bool { return errors.Is(err, supervisor.ErrGoexit) }},
	{"someone else's context error", func() error {
		return context.Canceled
	}, supervisor.KindError, func(err error) bool { return errors.Is(err, context.Canceled) }},
}

func TestEndingsAreToldApartAndAPermanentChildIsRestartedAfterEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		r := start(t, supervisor.Tree{Children: []supervisor.Child{a.child()}})
		for i, w := range ways {
			a.now(w.f)
			rep := r.find(t, "root/a")
			if c := rep.LastCause; c == nil || c.Kind != w.kind ||
				!w.is(c.Err) && w.kind != supervisor.KindNil || c.Path != "root/a" ||
				c.Incarnation != i+1 {
				t.Errorf("%s: cause %+v", w.name, c)
			}
			if rep.State != supervisor.StateBackoff ||
				!rep.NextRestart.Equal(time.Now().Add(time.Second)) || rep.Restarts != i+1 {
				t.Errorf("%s: report %+v", w.name, rep)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			want(t, j.take(), "+a", "-a", "+a")
			j.add("+a")
		}
		r.mustEnd(t)
	})
}

func TestRestartTypes(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart supervisor.Restart
		end     func() error
		state   supervisor.ChildState
	}{
		{"permanent, nil", supervisor.Permanent, func() error {
			return nil
		}, supervisor.StateBackoff},
		{"permanent, error", supervisor.Permanent, boom, supervisor.StateBackoff},
		{"transient, nil", supervisor.Transient, func() error { return nil }, supervisor.StateDone},
		{"transient, error", supervisor.Transient, boom, supervisor.StateBackoff},
		{"transient, panic", supervisor.Transient, func() error {
			panic(1)
		}, supervisor.StateBackoff},
		{"transient, goexit", supervisor.Transient, func() error {
			runtime.Goexit()
			return nil
		}, supervisor.StateBackoff},
		{"temporary, nil", supervisor.Temporary, func() error { return nil }, supervisor.StateDone},
		{"temporary, error", supervisor.Temporary, boom, supervisor.StateFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a := newActor(&j, "a")
				child := a.child()
				child.Restart = c.restart
				r := start(t, supervisor.Tree{Children: []supervisor.Child{child}})
				a.now(c.end)
				if s := r.find(t, "root/a").State; s != c.state {
					t.Errorf("state %s, want %s", s, c.state)
				}
				time.Sleep(time.Hour)
				again := slices.Equal(j.take(), []string{"+a", "-a", "+a"})
				if again != (c.state == supervisor.StateBackoff) {
					t.Errorf("restarted: %v", again)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy supervisor.Strategy
		want     []string
	}{
		{supervisor.OneForOne, []string{"-b", "+b"}},
		{supervisor.OneForAll, []string{"-b", "-d", "-c", "-a", "+a", "+b", "+c", "+d"}},
		{supervisor.RestForOne, []string{"-b", "-d", "-c", "+b", "+c", "+d"}},
	} {
		t.Run(c.strategy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				tree := supervisor.Tree{Strategy: c.strategy}
				actors := map[string]*actor{}
				for _, n := range []string{"a", "b", "c", "d"} {
					actors[n] = newActor(&j, n)
					child := actors[n].child()
					child.Gate = true // so that the order of starting shows
					tree.Children = append(tree.Children, child)
				}
				r := start(t, tree)
				j.take()
				actors["b"].now(boom)
				time.Sleep(time.Second - 1)
				synctest.Wait()
				stops := c.want[:len(c.want)/2]
				want(t, j.take(), stops...)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				want(t, j.take(), c.want[len(c.want)/2:]...)
				if n := r.find(t, "root/b").Restarts; n != 1 {
					t.Errorf("%d restarts of b, want 1", n)
				}
				if n := r.find(t, "root/d").Restarts; n != 0 {
					t.Errorf("%d restarts of d, want 0: it was not its own end", n)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestBackoffGrowsAndAHealthyRunResetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		child := a.child()
		child.HealthyAfter = time.Minute
		child.Backoff = func() supervisor.Backoff {
			return backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second),
				backoff.WithMultiplier(2),
				backoff.WithRandomizationFactor(0), backoff.WithMaxInterval(5*time.Second),
				backoff.WithMaxElapsedTime(0))
		}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{child}})
		for i, c := range []struct{ run, wait time.Duration }{
			{0, time.Second}, {0, 2 * time.Second}, {time.Minute - 1, 4 * time.Second},
			{0, 5 * time.Second},
			{time.Minute, time.Second}, {0, 2 * time.Second},
		} {
			time.Sleep(c.run)
			a.now(boom)
			if got := time.Until(r.find(t, "root/a").NextRestart); got != c.wait {
				t.Errorf("failure %d: restart in %v, want %v", i+1, got, c.wait)
			}
			time.Sleep(c.wait)
			synctest.Wait()
		}
		r.mustEnd(t)
	})
}

func TestTheDefaultBackoffNeverGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := start(t, supervisor.Tree{MaxRestarts: -1,
			Children: []supervisor.Child{{Name: "a", Run: func(context.Context) error {
				n++
				return errBoom
			}}}})
		time.Sleep(24 * time.Hour)
		r.mustEnd(t)
		// 10 s with jitter 0.5: between 5 s and 15 s each.
		if n < 24*3600/15 || n > 24*3600/5 {
			t.Errorf("%d restarts in a day", n)
		}
	})
}
