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

// confessor is a child that keeps why it was stopped.
func confessor(name string, why *error) supervisor.Child {
	return supervisor.Child{
		Name:    name,
		Restart: supervisor.Transient,
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			*why = context.Cause(ctx)
			return ctx.Err()
		},
	}
}

func TestTheCauseOfRunsContextReachesEveryChildAndComesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outer, inner error
		s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
			confessor("outer", &outer),
			{
				Name: "tree",
				Tree: &supervisor.Tree{Children: []supervisor.Child{confessor("inner", &inner)}},
			},
		}}, quiet, supervisor.WithCause())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		err = s.Run(ctx)
		var stopped *supervisor.StoppedError
		if !errors.As(err, &stopped) || stopped.Cause != errBoom || stopped.Path != "root" {
			t.Errorf("Run returned %v", err)
		}
		if outer != errBoom || inner != errBoom {
			t.Errorf("the children saw %v and %v", outer, inner)
		}
	})
}

func TestRunReturnsNilWhateverTheCauseUnlessItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := supervisor.New("root", supervisor.Tree{}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestAChildIsToldWhyItIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		tree supervisor.Tree
		act  func(a *actor, h *supervisor.Handle)
		is   []error
	}{
		"removed": {
			supervisor.Tree{}, func(_ *actor, h *supervisor.Handle) { h.Stop() },
			[]error{supervisor.ErrRemoved, context.Canceled},
		},
		"restarted": {
			supervisor.Tree{Strategy: supervisor.OneForAll},
			func(a *actor, _ *supervisor.Handle) { a.now(boom) },
			[]error{supervisor.ErrRestarted, context.Canceled, errBoom},
		},
		"shut down": {
			supervisor.Tree{AutoShutdown: supervisor.AnySignificant},
			func(a *actor, _ *supervisor.Handle) { a.now(nothing) },
			[]error{supervisor.ErrShutdown, context.Canceled},
		},
		"shut down by a failure": {
			supervisor.Tree{AutoShutdown: supervisor.AnySignificant},
			func(a *actor, _ *supervisor.Handle) { a.now(func() error { panic(errBoom) }) },
			[]error{supervisor.ErrShutdown, errBoom},
		},
		"escalated": {supervisor.Tree{}, func(a *actor, _ *supervisor.Handle) {
			a.now(func() error { return supervisor.Escalate(errBoom) })
		}, []error{errBoom}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var why error
				var j journal
				a := newActor(&j, "a")
				child := a.child()
				if c.tree.AutoShutdown != supervisor.Never {
					child = a.ends(true)
				}
				handles := make(chan *supervisor.Handle, 1)
				c.tree.Children = []supervisor.Child{
					child,
					{
						Name:    "manager",
						Restart: supervisor.Temporary,
						Run: func(ctx context.Context) error {
							h, err := supervisor.Of(ctx).Start(confessor("b", &why))
							handles <- h
							return err
						},
					},
				}
				r := start(t, c.tree)
				c.act(a, <-handles)
				synctest.Wait()
				for _, want := range c.is {
					if !errors.Is(why, want) {
						t.Errorf("the cause is %v, which is not %v", why, want)
					}
				}
				_ = r.end()
			})
		})
	}
}

// Of two reasons the children are told the first. An end of the tree's own is none of Run's.
func TestRunReturnsTheReasonThatTheChildrenWereTold(t *testing.T) {
	terminate := fmt.Errorf("SIGTERM: %w", supervisor.ErrTerminate)
	for _, c := range []struct {
		order []string
		told  error
		is    error // what Run returns wraps it
	}{
		{[]string{"context", "signal"}, errBoom, errBoom},
		{[]string{"signal", "context"}, terminate, terminate},
		{[]string{"end", "signal"}, supervisor.ErrShutdown, nil},
		{[]string{"end", "context"}, supervisor.ErrShutdown, nil},
	} {
		t.Run(fmt.Sprint(c.order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told error
				signals, job := newActor(new(journal), "signals"), newActor(new(journal), "job")
				last := job.child()
				last.Restart, last.Significant = supervisor.Transient, true
				s, err := supervisor.New("root", supervisor.Tree{
					AutoShutdown: supervisor.AnySignificant,
					Children: []supervisor.Child{signals.child(), last,
						{Name: "slow", Run: func(ctx context.Context) error {
							err := slowToStop(ctx)
							told = context.Cause(ctx)
							return err
						}}}}, quiet, supervisor.WithCause())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				for _, what := range c.order {
					synctest.Wait()
					switch what {
					case "context":
						cancel(errBoom)
					case "signal":
						signals.now(func() error { return terminate })
					case "end":
						job.now(nothing)
					}
				}
				if err := <-done; !errors.Is(err, c.is) || !errors.Is(told, c.told) {
					t.Errorf("Run returned %v, and a child was told %v", err, told)
				}
			})
		})
	}
}

// A tree is asked to stop and told to hurry in one moment, in which its supervisor waits for a
// backoff policy: it may come to the second first.
func TestAChildIsToldWhyItIsStoppedAlsoWhenTimeIsUpForAll(t *testing.T) {
	for range 20 { // which comes first is left to chance
		synctest.Test(t, func(t *testing.T) {
			var why error
			letGo := make(chan struct{})
			defer close(letGo)
			a := newActor(new(journal), "a")
			busy, hung := a.child(), hanging("hung", letGo)
			busy.Backoff = func() supervisor.Backoff {
				return meanwhile(func() { time.Sleep(10 * time.Second) })
			}
			hung.StopTimeout = supervisor.Unlimited
			s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
				treeOf("tree", confessor("b", &why), busy), hung,
			}}, quiet, supervisor.WithStopTimeout(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { a.now(boom); cancel(errBoom) }()
			stuckOf(t, s.Run(ctx))
			if why != errBoom {
				t.Fatalf("it was told %v", why)
			}
		})
	}
}

// What Run returned is another tree's story: nothing in it asks this one for anything.
func TestAStoppedErrorAsksNothingOfTheTreeAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		r := start(
			t,
			supervisor.Tree{
				Children: []supervisor.Child{
					{
						Name:    "embedded",
						Backoff: every(time.Second),
						Run: func(ctx context.Context) error {
							if starts++; starts == 2 {
								<-ctx.Done()
								return nil
							}
							inner, err := supervisor.New(
								"inner",
								supervisor.Tree{},
								quiet,
								supervisor.WithCause(),
							)
							if err != nil {
								return err
							}
							own, cancel := context.WithCancelCause(ctx)
							cancel(supervisor.Escalate(errBoom))
							return inner.Run(own)
						},
					},
				},
			},
		)
		time.Sleep(2 * time.Second)
		r.mustEnd(t)
		if starts != 2 {
			t.Errorf("the embedding child was started %d times, want 2", starts)
		}
	})
}
