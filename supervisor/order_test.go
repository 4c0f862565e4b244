package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		tree := supervisor.Tree{}
		for i := range 4 {
			tree.Children = append(tree.Children, supervisor.Child{Name: fmt.Sprint(i), Gate: true,
				Run: func(ctx context.Context) error {
					j.add(fmt.Sprint("+", i))
					supervisor.Ready(ctx)
					<-ctx.Done()
					j.add(fmt.Sprint("asked ", i))
					time.Sleep(time.Second)
					j.add(fmt.Sprint("-", i))
					return errors.New("what it returns now does not matter")
				}})
		}
		r := start(t, tree)
		want(t, j.take(), "+0", "+1", "+2", "+3")
		began := time.Now()
		r.mustEnd(t)
		want(t, j.take(), "asked 3", "-3", "asked 2", "-2", "asked 1", "-1", "asked 0", "-0")
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("the stop took %v, want one after the other: 4s", d)
		}
	})
}

func TestGateHoldsTheNextSiblingBackUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		tries := 0
		db := supervisor.Child{Name: "db", Gate: true, Backoff: every(time.Second),
			Run: func(ctx context.Context) error {
				if tries++; tries < 3 {
					return errors.New("not yet") // dies before it is ready
				}
				time.Sleep(time.Minute)
				supervisor.Ready(ctx)
				supervisor.Ready(ctx)
				<-ctx.Done()
				return nil
			}}
		web := newActor(&j, "web")
		r := start(t, supervisor.Tree{Children: []supervisor.Child{db, web.child()}})
		time.Sleep(time.Minute + 2*time.Second - 1)
		synctest.Wait()
		want(t, j.take())
		if s := r.find(t, "root/db").State; s != supervisor.StateStarting {
			t.Errorf("state of db is %s, want starting", s)
		}
		if s := r.Report().State; s != supervisor.StateStarting {
			t.Errorf("state of the root is %s, want starting", s)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, j.take(), "+web")
		if s := r.Report().State; s != supervisor.StateRunning {
			t.Errorf("state of the root is %s, want running", s)
		}
		r.mustEnd(t)
	})
}

func TestAnOldIncarnationDoesNotOpenTheGateOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var ctxs []context.Context
		db := supervisor.Child{Name: "db", Gate: true, Backoff: every(time.Second),
			Run: func(ctx context.Context) error {
				if ctxs = append(ctxs, ctx); len(ctxs) < 3 {
					return errBoom
				}
				<-ctx.Done()
				return nil
			}}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{db,
			newActor(&j, "web").child()}})
		supervisor.Ready(ctxs[0]) // waits for its restart
		time.Sleep(3 * time.Second)
		synctest.Wait()
		supervisor.Ready(ctxs[1]) // the third runs
		synctest.Wait()
		want(t, j.take())
		supervisor.Ready(ctxs[2])
		synctest.Wait()
		want(t, j.take(), "+web")
		r.mustEnd(t)
	})
}

func TestATreeIsReadyWhenItsChildrenAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		slow := supervisor.Child{Name: "slow", Gate: true, Run: func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			supervisor.Ready(ctx)
			<-ctx.Done()
			return nil
		}}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{
			{Name: "office", Gate: true,
				Tree: &supervisor.Tree{Children: []supervisor.Child{slow}}},
			newActor(&j, "web").child(),
		}})
		time.Sleep(9 * time.Second)
		want(t, j.take())
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, j.take(), "+web")
		r.mustEnd(t)
	})
}

func TestADoneChildOpensItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		migrate := supervisor.Child{Name: "migrate", Gate: true, Restart: supervisor.Transient,
			Run: func(context.Context) error { return nil }}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{migrate,
			newActor(&j, "web").child()}})
		want(t, j.take(), "+web")
		if s := r.find(t, "root/migrate").State; s != supervisor.StateDone {
			t.Errorf("state %s, want done", s)
		}
		r.mustEnd(t)
	})
}

func TestAGateThatNobodyCanOpenEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		once := supervisor.Child{Name: "once", Gate: true, Restart: supervisor.Temporary,
			Run: func(context.Context) error { return errBoom }}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{once,
			newActor(&j, "web").child()}})
		err := <-r.done
		var esc *supervisor.EscalationError
		if !errors.As(err, &esc) || !errors.Is(err, errBoom) {
			t.Errorf("Run returned %v, want an escalation with its cause", err)
		}
		want(t, j.take())
		r.stop()
	})
}

func TestStopDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		never := supervisor.Child{Name: "never", Gate: true, Run: func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{newActor(&j, "a").child(), never,
			newActor(&j, "b").child()}})
		r.mustEnd(t)
		want(t, j.take(), "+a", "-a")
	})
}

func TestNothingStartsUnderAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s, err := supervisor.New("root",
			supervisor.Tree{Children: []supervisor.Child{newActor(&j, "a").child()}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		want(t, j.take())
	})
}

func TestStopTogetherAsksAllAtOnceEachWithItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := supervisor.Tree{StopTogether: true}
		for i := range 100 {
			tree.Children = append(tree.Children, supervisor.Child{Name: fmt.Sprint(i),
				StopTimeout: 2 * time.Second, Run: func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Second)
					return nil
				}})
		}
		r := start(t, tree)
		began := time.Now()
		r.mustEnd(t)
		if d := time.Since(began); d != time.Second {
			t.Errorf("the stop took %v, want 1s", d)
		}
	})
}

func TestChildrenSeeTheValuesOfTheContextButNotItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var first, second bool
		s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
			{Name: "first", Run: func(ctx context.Context) error {
				first = ctx.Value(key{}) == "v"
				<-ctx.Done()
				return nil
			}},
			{Name: "second", Run: func(ctx context.Context) error {
				<-ctx.Done()
				r := supervisor.Of(ctx)
				h, ok := r.Child("first")
				select {
				case <-h.Done():
				default:
					second = ok
				}
				return nil
			}},
		}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if !first || !second {
			t.Errorf("value seen %v, first alive while second stops %v", first, second)
		}
	})
}

func TestAChildIsToldWhyItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		tells := func(name string) supervisor.Child {
			return supervisor.Child{Name: name, Run: func(ctx context.Context) error {
				<-ctx.Done()
				j.add(name + " " + context.Cause(ctx).Error())
				return nil
			}}
		}
		a, calm := newActor(&j, "a"), errors.New("the host is calm")
		s, err := supervisor.New("root", supervisor.Tree{Strategy: supervisor.OneForAll,
			Children: []supervisor.Child{a.child(), tells("b")}}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		a.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		cancel(calm)
		if err := <-done; err != nil {
			t.Error(err)
		}
		want(t, j.take(), "+a", "-a", "b "+supervisor.ErrRestarted.Error(), "+a", "b "+calm.Error(),
			"-a")
	})
}
