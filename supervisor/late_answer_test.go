package supervisor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// endsUntold is a tree whose child hangs, and has ended by the time that ended is called; that is
// told when told is.
func endsUntold() (office supervisor.Child, ended, told func()) {
	leaf := newLatePanic()
	end := func(c chan struct{}) func() {
		return func() { close(c); synctest.Wait() }
	}
	return treeOf("office", leaf.child()), end(leaf.letGo), end(leaf.tell)
}

// asked is what f returns, once it does.
func asked(f func() error) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- f() }()
	synctest.Wait()
	return answer
}

// none fails the test when there is an answer already.
func none(t *testing.T, answer <-chan error) {
	t.Helper()
	select {
	case err := <-answer:
		t.Errorf("answered before its end is told: %#v", err)
	default:
	}
}

// given wants an answer that is there.
func given(t *testing.T, answer <-chan error, want error) {
	t.Helper()
	select {
	case err := <-answer:
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	default:
		t.Error("no answer")
	}
}

func TestWhoStopsWhatHasEndedIsToldSoOnceThatIsTold(t *testing.T) {
	for _, how := range []string{"by name", "asked before", "with its supervisor", "restarted"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				office, ended, told := endsUntold()
				r, g := startGroup(t, supervisor.Tree{Children: []supervisor.Child{office}})
				stop := func() error { return g.Stop(t.Context(), "office") }
				if how == "asked before" {
					stuckOf(t, stop())
				} else {
					stuckOf(t, g.Restart(t.Context(), "office"))
				}
				ended()
				var restarted <-chan error
				if how == "restarted" {
					restarted = asked(func() error { return g.Restart(t.Context(), "office") })
				}
				answer := asked(stop)
				none(t, answer)
				if how == "with its supervisor" {
					r.stop()
					synctest.Wait()
					none(t, answer)
				}
				told()
				given(t, answer, nil)
				if restarted != nil {
					given(t, restarted, supervisor.ErrUnknown)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestWhoRestartsWhatHasEndedIsToldWhenItRuns(t *testing.T) {
	for _, how := range []string{"again", "in a backoff", "with its supervisor"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				office, ended, told := endsUntold()
				var j journal
				a := newActor(&j, "a")
				office.Tree.Children = append(office.Tree.Children, a.child())
				office.Tree.MaxRestarts = supervisor.NoRestarts
				office.Backoff = every(time.Hour)
				r, g := startGroup(t, supervisor.Tree{Children: []supervisor.Child{office}})
				if how == "in a backoff" {
					a.now(boom)
					time.Sleep(time.Second)
				} else {
					stuckOf(t, g.Restart(t.Context(), "office"))
				}
				ended()
				answer := asked(func() error { return g.Restart(t.Context(), "office") })
				none(t, answer)
				if how == "with its supervisor" {
					r.stop()
					synctest.Wait()
					given(t, answer, supervisor.ErrStopped)
					told()
					r.mustEnd(t)
					return
				}
				told()
				given(t, answer, nil)
				want := map[string]int{"again": 1, "in a backoff": 2}[how]
				if f := r.find(t, "root/office"); f.Incarnation != 2 || f.Restarts != want ||
					f.State != supervisor.StateRunning {
					t.Errorf("%+v", f)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestARestartThatLeavesAChildBehindIsAnsweredWhenThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		office, ended, told := endsUntold()
		office.Tree.Children = append([]supervisor.Child{{Name: "slow",
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			}}}, office.Tree.Children...)
		r, g := startGroup(t, supervisor.Tree{Children: []supervisor.Child{office}})
		answer := asked(func() error { return g.Restart(t.Context(), "office") })
		time.Sleep(time.Second / 2)
		ended()
		time.Sleep(time.Second)
		none(t, answer)
		told()
		given(t, answer, nil)
		if f := r.find(t, "root/office"); f.Incarnation != 2 || f.Restarts != 1 {
			t.Errorf("%+v", f)
		}
		r.mustEnd(t)
	})
}

func TestATreeWhoseChildHasEndedLateIsStartedAgainWhenThatIsTold(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.OneForAll} {
		for _, then := range []string{"told", "stopped"} {
			t.Run(strategy.String()+" "+then, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					office, ended, told := endsUntold()
					var j journal
					a, z := newActor(&j, "a"), newActor(&j, "z")
					office.Backoff = every(time.Second)
					tree := supervisor.Tree{Strategy: strategy}
					if strategy == supervisor.OneForOne { // the tree itself fails
						office.Tree.Children = append(office.Tree.Children, a.child())
						office.Tree.MaxRestarts = supervisor.NoRestarts
						tree.Children = []supervisor.Child{office, z.child()}
					} else {
						tree.Children = []supervisor.Child{a.child(), office, z.child()}
					}
					r := start(t, tree)
					a.now(boom)
					time.Sleep(time.Second / 2)
					ended()
					time.Sleep(time.Second) // its start is due
					if r.ended(t) {
						told()
						return
					}
					if then == "stopped" {
						r.mustEndWhen(t, told)
						return
					}
					told()
					if f := r.find(t, "root/office"); f.Incarnation != 2 ||
						f.State != supervisor.StateRunning {
						t.Errorf("%+v", f)
					}
					if s := r.find(t, "root/z").State; s != supervisor.StateRunning {
						t.Errorf("z is %s", s)
					}
					r.mustEnd(t)
				})
			})
		}
	}
}

// mustEndWhen asks the supervisor to stop, and does then what lets it end.
func (r *running) mustEndWhen(t *testing.T, then func()) {
	t.Helper()
	r.stop()
	synctest.Wait()
	then()
	r.mustEnd(t)
}
