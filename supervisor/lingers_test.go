package supervisor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// ended tells whether Run has returned, and fails the test if it has.
func (r *running) ended(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-r.done:
		t.Errorf("the tree has ended: %v", err)
		return true
	default:
		return false
	}
}

func TestATemporaryChildThatHangsKeepsNoGroupFromItsRestart(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForAll, supervisor.RestForOne} {
		for _, which := range []string{"static", "dynamic", "gated dynamic"} {
			t.Run(strategy.String()+" "+which, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dynamic := which != "static"
					var j journal
					letGo := make(chan struct{})
					a, group := newActor(&j, "a"), (*supervisor.Group)(nil)
					first := a.child()
					first.Run = func(ctx context.Context) error {
						group = supervisor.Of(ctx)
						return a.run(ctx)
					}
					temp := hanging("temp", letGo)
					temp.Restart = supervisor.Temporary
					temp.Gate = which == "gated dynamic" // at which nothing will wait
					tree := supervisor.Tree{Strategy: strategy,
						Children: []supervisor.Child{first, temp}}
					if dynamic {
						tree.Children = tree.Children[:1]
					}
					r := start(t, tree)
					if dynamic {
						if _, err := group.Start(temp); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					a.now(boom)
					time.Sleep(time.Minute)
					if r.ended(t) {
						close(letGo)
						return
					}
					want(t, j.take(), "+a", "-a", "+a")
					if s := r.find(t, "root/temp").State; s != supervisor.StateStuck {
						t.Errorf("it is %s", s)
					}
					close(letGo)
					synctest.Wait()
					rep := r.Report()
					if got, ok := rep.Find("root/temp"); ok == dynamic ||
						!dynamic && got.State != supervisor.StateStopped {
						t.Errorf("when it has ended it is %q", got.State)
					}
					r.mustEnd(t)
				})
			})
		}
	}
}

func TestADynamicTemporaryChildThatEndsLateIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		a, group := newActor(&j, "a"), (*supervisor.Group)(nil)
		first := a.child()
		first.Backoff = every(time.Minute)
		first.Run = func(ctx context.Context) error {
			group = supervisor.Of(ctx)
			return a.run(ctx)
		}
		r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
			Children: []supervisor.Child{first}})
		temp := hanging("temp", letGo)
		temp.Restart = supervisor.Temporary
		h, err := group.Start(temp)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.now(boom)
		time.Sleep(10 * time.Second)
		close(letGo) // before the group starts again
		time.Sleep(time.Minute)
		select {
		case <-h.Done():
		default:
			t.Error("its Handle is not done")
		}
		rep := r.Report()
		if got, ok := rep.Find("root/temp"); ok {
			t.Errorf("the report shows it as %s", got.State)
		}
		if _, err := group.Start(temp); err != nil {
			t.Errorf("its name is not free: %v", err)
		}
		r.mustEnd(t)
	})
}

func TestARestartByHandThatHangsIsDoneWhenItHasEndedAlsoBehindAGate(t *testing.T) {
	for _, which := range []string{"gate", "hangs"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				letGo, open := make(chan struct{}), make(chan struct{})
				starts, group := map[string]int{}, (*supervisor.Group)(nil)
				child := func(name string, ready func(context.Context)) supervisor.Child {
					return supervisor.Child{Name: name, StopTimeout: time.Second,
						Run: func(ctx context.Context) error {
							group = supervisor.Of(ctx)
							if starts[name]++; starts[name] == 1 && name == which {
								<-letGo
							}
							ready(ctx)
							<-ctx.Done()
							return nil
						}}
				}
				gate := child("gate", func(ctx context.Context) {
					select {
					case <-open:
						supervisor.Ready(ctx)
					case <-ctx.Done():
					}
				})
				gate.Gate = true
				r := start(t, supervisor.Tree{
					Children: []supervisor.Child{gate, newActor(&j, "last").child()}})
				if _, err := group.Start(child("hangs", func(context.Context) {})); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				stuckOf(t, group.Restart(t.Context(), which))
				close(open)
				time.Sleep(time.Minute)
				if r.ended(t) {
					close(letGo)
					return
				}
				if which == "gate" {
					want(t, j.take()) // it is not ready
				}
				close(letGo)
				synctest.Wait()
				if which == "gate" {
					want(t, j.take(), "+last")
				}
				if got := r.find(t, "root/"+which); got.State != supervisor.StateRunning ||
					got.Incarnation != 2 {
					t.Errorf("when it has ended it is %s in its incarnation %d", got.State,
						got.Incarnation)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestATreeEndsWhenItsLastSignificantChildHasEndedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		job := supervisor.Child{Name: "job", Restart: supervisor.Temporary, Significant: true,
			Tree: &supervisor.Tree{AutoShutdown: supervisor.AnySignificant,
				Children: []supervisor.Child{hanging("hung", letGo),
					{Name: "done", Restart: supervisor.Temporary, Significant: true,
						Run: func(context.Context) error { return nil }}}}}
		r := start(t, supervisor.Tree{AutoShutdown: supervisor.AllSignificant,
			Children: []supervisor.Child{{Name: "manager", Run: func(ctx context.Context) error {
				if _, err := supervisor.Of(ctx).Start(job); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}}}})
		time.Sleep(time.Minute)
		if r.ended(t) {
			return
		}
		close(letGo)
		synctest.Wait()
		select {
		case err := <-r.done:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		default:
			t.Error("the tree goes on without its significant child")
			r.mustEnd(t)
		}
	})
}

func TestAGatedTemporaryChildThatEndsLateBeforeItWasReadyEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		letGo := make(chan struct{})
		a, z := newActor(&j, "a"), newActor(&j, "z")
		gate := hanging("gate", letGo)
		gate.Gate, gate.Restart = true, supervisor.Temporary
		first := a.child()
		first.Backoff = every(time.Minute)
		r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
			Children: []supervisor.Child{first, gate, z.child()}})
		a.now(boom)
		time.Sleep(10 * time.Second)
		close(letGo) // before the group starts again
		time.Sleep(time.Hour)
		var esc *supervisor.EscalationError
		if err := r.end(); !errors.As(err, &esc) ||
			esc.Reason != "a gated temporary child was stopped before it was ready" {
			t.Errorf("Run returned %v", err)
		}
		want(t, j.take(), "+a", "-a")
	})
}
