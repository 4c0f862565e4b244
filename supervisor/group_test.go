package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// lobby is a child that hands out the group it is in.
func lobby(group **supervisor.Group) supervisor.Child {
	return supervisor.Child{Name: "lobby", Gate: true, Run: func(ctx context.Context) error {
		*group = supervisor.Of(ctx)
		supervisor.Ready(ctx)
		<-ctx.Done()
		return nil
	}}
}

func startGroup(t *testing.T, tree supervisor.Tree) (*running, *supervisor.Group) {
	t.Helper()
	var g *supervisor.Group
	tree.Children = append([]supervisor.Child{lobby(&g)}, tree.Children...)
	r := start(t, tree)
	return r, g
}

func mustStart(t *testing.T, g *supervisor.Group, c supervisor.Child) *supervisor.Handle {
	t.Helper()
	h, err := g.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return h
}

func isDone(h *supervisor.Handle) bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

func TestDynamicChildrenAreSupervisedAndStopFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		r, g := startGroup(t,
			supervisor.Tree{Children: []supervisor.Child{newActor(&j, "static").child()}})
		x, y := newActor(&j, "x"), newActor(&j, "y")
		mustStart(t, g, x.child())
		hy := mustStart(t, g, y.child())
		x.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, j.take(), "+static", "+x", "+y", "-x", "+x")
		if rep := r.find(t, "root/x"); !rep.Dynamic || rep.Restarts != 1 || hy.Name() != "y" {
			t.Errorf("report %+v", rep)
		}
		r.mustEnd(t)
		want(t, j.take(), "-y", "-x", "-static")
		if !isDone(hy) {
			t.Error("Done is not closed after the supervisor has stopped")
		}
	})
}

func TestADynamicChildThatEndsForGoodIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		restart supervisor.Restart
		end     func() error
	}{
		"transient, nil":   {supervisor.Transient, func() error { return nil }},
		"temporary, nil":   {supervisor.Temporary, func() error { return nil }},
		"temporary, error": {supervisor.Temporary, boom},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				r, g := startGroup(t, supervisor.Tree{})
				x := newActor(&j, "x")
				child := x.child()
				child.Restart = c.restart
				h := mustStart(t, g, child)
				if _, ok := g.Child("x"); !ok || isDone(h) {
					t.Error("not there while it runs")
				}
				x.now(c.end)
				rep := r.Report()
				_, reported := rep.Find("root/x")
				if _, ok := g.Child("x"); ok || reported || !isDone(h) {
					t.Error("still there after its end")
				}
				mustStart(t, g, child) // the name is free
				h.Stop()               // a handle of the old one does nothing to the new one
				synctest.Wait()
				if _, ok := g.Child("x"); !ok {
					t.Error("the new one was stopped by the handle of the old one")
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestDoneIsClosedWhenAnAbandonedChildEndsAfterItsSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		r, g := startGroup(t, supervisor.Tree{})
		h := mustStart(t, g, hanging("x", letGo))
		tree := mustStart(t, g, supervisor.Child{Name: "tree",
			Tree: &supervisor.Tree{Children: []supervisor.Child{hanging("y", letGo)}}})
		if s := stuckOf(t, r.end()); len(s.Children) != 2 {
			t.Errorf("%v", s)
		}
		if isDone(h) || isDone(tree) {
			t.Error("Done is closed although its goroutine runs")
		}
		close(letGo)
		<-h.Done()
		<-tree.Done()
	})
}

func TestHandleStopDoesNotWaitAndManyStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := startGroup(t, supervisor.Tree{})
		var handles []*supervisor.Handle
		for i := range 1000 {
			h, err := g.Start(supervisor.Child{Name: fmt.Sprint("w", i),
				Run: func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Second)
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, h)
		}
		began := time.Now()
		for _, h := range handles {
			h.Stop()
			h.Stop()
		}
		if time.Since(began) != 0 {
			t.Error("Stop waited")
		}
		for _, h := range handles {
			<-h.Done()
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("they took %v, want 1s together", d)
		}
		rep := r.Report()
		if n := len(rep.Children); n != 1 {
			t.Errorf("%d children left, want the lobby", n)
		}
		r.mustEnd(t)
	})
}

func TestRemovedWakesForEachChildThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := startGroup(t, supervisor.Tree{})
		var handles []*supervisor.Handle
		for i := range 5 {
			handles = append(handles, mustStart(t, g, supervisor.Child{Name: fmt.Sprint(i),
				Restart: supervisor.Transient, Run: func(ctx context.Context) error {
					time.Sleep(time.Duration(i) * time.Second)
					return nil
				}}))
		}
		began := time.Now()
		for {
			removed := g.Removed()
			handles = slices.DeleteFunc(handles, isDone)
			if len(handles) == 0 {
				break
			}
			<-removed
		}
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("all gone after %v, want 4s", d)
		}
		removed := g.Removed()
		select {
		case <-removed:
			t.Error("woken without a removal")
		default:
		}
		r.mustEnd(t)
		<-removed // the end of all
	})
}

func TestNamesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := startGroup(t, supervisor.Tree{Children: []supervisor.Child{newActor(new(journal),
			"b").child()}})
		mustStart(t, g, newActor(new(journal), "a").child())
		want(t, g.Names(), "lobby", "b", "a")
		r.mustEnd(t)
		want(t, g.Names())
	})
}

func TestAGatedChildMayStartAndAwaitAnotherBeforeItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		manager := supervisor.Child{Name: "manager", Gate: true,
			Run: func(ctx context.Context) error {
				h, err := supervisor.Of(ctx).Start(supervisor.Child{Name: "job",
					Restart: supervisor.Transient, Run: func(context.Context) error { return nil }})
				if err != nil {
					return err
				}
				<-h.Done()
				supervisor.Ready(ctx)
				<-ctx.Done()
				return nil
			}}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{manager,
			newActor(&j, "web").child()}})
		want(t, j.take(), "+web")
		r.mustEnd(t)
	})
}

func TestStartRefusesWhatCannotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := startGroup(t, supervisor.Tree{})
		if _, err := g.Start(supervisor.Child{Name: "lobby", Run: func(context.Context) error {
			return nil
		}}); !errors.Is(err, supervisor.ErrDuplicate) {
			t.Errorf("a second lobby: %v", err)
		}
		if _, err := g.Start(supervisor.Child{Name: "x"}); err == nil ||
			!strings.Contains(err.Error(), "root/x") {
			t.Errorf("nothing to run: %v", err)
		}
		r.mustEnd(t)
	})
}
