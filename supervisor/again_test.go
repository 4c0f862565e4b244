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

func TestAChildThatSaysSoIsNotRestarted(t *testing.T) {
	done := func() error { return fmt.Errorf("all rows written: %w", supervisor.ErrDoNotRestart) }
	for _, restart := range []supervisor.Restart{
		supervisor.Permanent, supervisor.Transient, supervisor.Temporary,
	} {
		t.Run(restart.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a, b := newActor(&j, "a"), newActor(&j, "b")
				child := a.child()
				child.Restart = restart
				r := start(
					t,
					supervisor.Tree{
						Strategy: supervisor.OneForAll,
						Children: []supervisor.Child{child, b.child()},
					},
				)
				a.now(done)
				rep := r.find(t, "root/a")
				if c := rep.LastCause; rep.State != supervisor.StateDone || c == nil ||
					c.Kind != supervisor.KindDone {
					t.Errorf("report %+v", rep)
				}
				j.take()
				b.now(boom) // the group is restarted without it
				time.Sleep(time.Minute)
				want(t, j.take(), "-b", "+b")
				r.mustEnd(t)
			})
		})
	}
}

func TestAChildThatIsDoneOpensItsGateAndEndsATreeOfWhichAllIsDone(t *testing.T) {
	s, err := supervisor.New(
		"root",
		supervisor.Tree{AutoShutdown: supervisor.AllDone, Children: []supervisor.Child{
			{
				Name: "a",
				Gate: true,
				Run:  func(context.Context) error { return supervisor.ErrDoNotRestart },
			},
			{Name: "b", Run: func(context.Context) error { return supervisor.ErrDoNotRestart }},
		}},
		quiet,
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestAChildMayEndTheWholeTreeInOrder(t *testing.T) {
	for name, opts := range map[string][]supervisor.Option{
		"as it is": nil, "with its cause": {supervisor.WithCause()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				var why error
				a, b := newActor(&j, "a"), newActor(&j, "b")
				s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
					confessor("c", &why),
					{Name: "outer", Gate: true, Tree: &supervisor.Tree{Children: []supervisor.Child{
						{
							Name: "inner",
							Gate: true,
							Tree: &supervisor.Tree{Children: []supervisor.Child{a.child()}},
						},
					}}},
					b.child(),
				}}, append(opts, quiet)...)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() {
					if got := j.take(); len(got) != 2 {
						t.Errorf("started: %q", got)
					}
					a.fail <- func() error {
						return fmt.Errorf("%w: %w", errBoom, supervisor.ErrTerminate)
					}
				})
				err = s.Run(t.Context())
				var stopped *supervisor.StoppedError
				if opts == nil && err != nil ||
					opts != nil && (!errors.As(err, &stopped) || !errors.Is(err, errBoom)) {
					t.Errorf("Run returned %v", err)
				}
				want(t, j.take(), "-a", "-b")
				if !errors.Is(why, supervisor.ErrTerminate) {
					t.Errorf("c was told %v", why)
				}
				if rep := s.Report(); rep.State != supervisor.StateStopped {
					t.Errorf("the state is %s", rep.State)
				}
			})
		})
	}
}

func TestAnEscalateGoesBeforeWhatElseAnErrorSays(t *testing.T) {
	s, err := supervisor.New(
		"root",
		supervisor.Tree{Children: []supervisor.Child{{Name: "a", Run: func(context.Context) error {
			return errors.Join(
				supervisor.ErrTerminate,
				supervisor.Escalate(errBoom),
				supervisor.ErrDoNotRestart,
			)
		}}}},
		quiet,
	)
	if err != nil {
		t.Fatal(err)
	}
	var esc *supervisor.EscalationError
	if err := s.Run(t.Context()); !errors.As(err, &esc) {
		t.Errorf("Run returned %v", err)
	}
}

func TestARestartByHandStartsAChildAnewWhateverItsState(t *testing.T) {
	for name, c := range map[string]struct {
		restart supervisor.Restart
		before  func() error
		want    []string
	}{
		"running":           {supervisor.Permanent, nil, []string{"-a", "+a"}},
		"temporary":         {supervisor.Temporary, nil, []string{"-a", "+a"}},
		"waits for backoff": {supervisor.Permanent, boom, []string{"+a"}},
		"done":              {supervisor.Transient, nothing, []string{"+a"}},
		"failed":            {supervisor.Temporary, boom, []string{"+a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a, b := newActor(&j, "a"), newActor(&j, "b")
				child := a.child()
				child.Restart = c.restart
				r := start(
					t,
					supervisor.Tree{Strategy: supervisor.OneForOne, Children: []supervisor.Child{
						{
							Name: "tree",
							Tree: &supervisor.Tree{Children: []supervisor.Child{child, b.child()}},
						},
					}},
				)
				if c.before != nil {
					a.now(c.before)
				}
				j.take()
				if err := r.Restart(t.Context(), "root/tree/a"); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				want(t, j.take(), c.want...)
				if rep := r.find(
					t,
					"root/tree/a",
				); rep.Incarnation != 2 ||
					rep.State != supervisor.StateRunning {
					t.Errorf("report %+v", rep)
				}
				time.Sleep(time.Minute)
				want(t, j.take())
				r.mustEnd(t)
			})
		})
	}
}

func TestARestartByHandOfAChildThatHangsIsMadeUpForWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts, letGo := 0, make(chan struct{})
		r := start(
			t,
			supervisor.Tree{
				Children: []supervisor.Child{{Name: "a", Run: func(ctx context.Context) error {
					if starts++; starts == 1 {
						<-letGo
					}
					<-ctx.Done()
					return nil
				}}},
			},
		)
		var stuck *supervisor.StuckError
		for range 2 { // as it hangs, and when it was abandoned
			if err := r.Restart(t.Context(), "root/a"); !errors.As(err, &stuck) || starts != 1 {
				t.Errorf("after %d starts: %v", starts, err)
			}
		}
		close(letGo)
		synctest.Wait()
		if starts != 2 {
			t.Errorf("%d starts", starts)
		}
		r.mustEnd(t)
	})
}

func TestARestartByHandOfWhatIsLeftBehindIsMadeUpForWhenItEnds(t *testing.T) {
	for _, which := range []string{"temporary", "done", "in its backoff"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				letGo, starts := make(chan struct{}), 0
				hangs := supervisor.Child{Name: "hangs", Run: func(ctx context.Context) error {
					if starts++; starts == 1 {
						<-letGo
						return nil
					}
					<-ctx.Done()
					return nil
				}}
				a := newActor(new(journal), "a")
				tree, path, end := supervisor.Tree{}, "root/office", boom
				office := treeOf("office", hangs, a.child())
				office.Backoff, office.Tree.MaxRestarts = every(time.Hour), supervisor.NoRestarts
				tree.Children = []supervisor.Child{office}
				switch which {
				case "temporary":
					hangs.Restart, path = supervisor.Temporary, "root/hangs"
					tree.Strategy = supervisor.OneForAll
					tree.Children = []supervisor.Child{a.child(), hangs}
				case "done":
					end = func() error { return supervisor.ErrDoNotRestart }
					tree.Children[0].Restart = supervisor.Transient
					office.Tree.AutoShutdown = supervisor.AnySignificant
					last := &office.Tree.Children[1]
					last.Significant, last.Restart = true, supervisor.Transient
				}
				r := start(t, tree)
				a.now(end)
				time.Sleep(time.Minute)
				stuckOf(t, r.Restart(t.Context(), path))
				time.Sleep(2 * time.Hour) // no restart of its own comes before it
				close(letGo)
				synctest.Wait()
				if f := r.find(t, path); starts != 2 || f.State != supervisor.StateRunning ||
					f.Incarnation != 2 {
					t.Errorf("after %d starts: %+v", starts, f)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestARestartByHandThatCannotBeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := make(chan error, 1)
		r := start(
			t,
			supervisor.Tree{
				Children: []supervisor.Child{{Name: "a", Run: func(ctx context.Context) error {
					own <- supervisor.Of(ctx).Restart(ctx, "a")
					<-ctx.Done()
					return nil
				}}},
			},
		)
		if err := <-own; err == nil {
			t.Error("a child waited for its own end")
		}
		for path, is := range map[string]error{
			"root/b": supervisor.ErrUnknown, "root/a/b": supervisor.ErrUnknown,
			"root/b/a": supervisor.ErrUnknown, "other/a": supervisor.ErrUnknown,
		} {
			if err := r.Restart(t.Context(), path); !errors.Is(err, is) {
				t.Errorf("%s: %v", path, err)
			}
		}
		r.mustEnd(t)
		if err := r.Restart(t.Context(), "root/a"); !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}
