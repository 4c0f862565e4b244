package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestARestartByHandKeepsTheOrderOfAGroupThatIsBeingRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		strategy supervisor.Strategy
		restart  supervisor.Restart
		before   func(a, b *actor)
	}{
		"it waits for its backoff": {supervisor.OneForAll, supervisor.Permanent,
			func(_, b *actor) { b.now(boom) }},
		"it alone waits for its backoff": {supervisor.RestForOne, supervisor.Permanent,
			func(a, b *actor) { b.now(boom); a.now(boom) }},
		"it is done": {supervisor.OneForAll, supervisor.Temporary,
			func(a, b *actor) { b.now(nothing); a.now(boom) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				var starts atomic.Int32
				open := make(chan struct{})
				gate := supervisor.Child{Name: "gate", Gate: true,
					Run: func(ctx context.Context) error {
						if starts.Add(1) == 2 {
							<-open
						}
						supervisor.Ready(ctx)
						<-ctx.Done()
						return nil
					}}
				a, b := newActor(&j, "a"), newActor(&j, "b")
				child := b.child()
				child.Restart, child.Backoff = c.restart, every(time.Hour)
				r := start(t, supervisor.Tree{Strategy: c.strategy,
					Children: []supervisor.Child{a.child(), gate, child}})
				c.before(a, b)
				time.Sleep(time.Minute) // a's backoff is over
				restarted := make(chan error, 1)
				go func() { restarted <- r.Restart(t.Context(), "root/b") }()
				time.Sleep(time.Minute)
				if got := r.find(t, "root/b"); got.Incarnation != 1 || starts.Load() != 2 {
					t.Errorf("it is %s in its incarnation %d, and the gate before it is closed",
						got.State, got.Incarnation)
				}
				close(open)
				if err := <-restarted; err != nil {
					t.Error(err)
				}
				if got := r.find(t, "root/b"); got.State != supervisor.StateRunning {
					t.Errorf("it is %s when the gate is open", got.State)
				}
				r.mustEnd(t)
			})
		})
	}
}

// A StuckError names children that run: one that waits for its turn does not.
func TestWhoWaitsForTheRestartOfWhatDoesNotRunIsToldNothingOfAStop(t *testing.T) {
	for _, which := range []string{"with its group", "behind a gate"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newActor(new(journal), "a"), newActor(new(journal), "b")
				first := a.child()
				first.Backoff = every(time.Minute)
				if which == "behind a gate" {
					first.Gate, first.Run = true, slowToStop
				}
				r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
					Children: []supervisor.Child{first, b.child()}})
				if which == "with its group" {
					a.now(boom)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := r.Restart(ctx, "root/b")
				var stuck *supervisor.StuckError
				if errors.As(err, &stuck) || !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), "waits for its turn") {
					t.Errorf("got %v", err)
				}
				r.mustEnd(t)
			})
		})
	}
}

// Else what comes after its gate would be started without it.
func TestARestartByHandTakesNothingThatHangsOutOfTheRestartOfItsGroup(t *testing.T) {
	for _, which := range []string{"a tree in its backoff", "others still stop", "behind a gate"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				letGo := make(chan struct{})
				var j journal
				a, x := newActor(new(journal), "a"), newActor(&j, "x")
				g := hanging("g", letGo)
				run := g.Run
				g.Gate, g.Run = true, func(ctx context.Context) error {
					supervisor.Ready(ctx)
					return run(ctx)
				}
				before := supervisor.Child{Name: "before", Run: slowToStop}
				last := a.child()
				switch which {
				case "a tree in its backoff":
					g = treeOf("g", hanging("hangs", letGo), a.child())
					g.Gate, g.Backoff, g.Tree.MaxRestarts = true, every(time.Minute),
						supervisor.NoRestarts
					last = newActor(new(journal), "last").child()
				case "behind a gate":
					starts := 0
					before.Gate, before.Run = true, func(ctx context.Context) error {
						if starts++; starts == 2 {
							time.Sleep(30 * time.Second)
						}
						supervisor.Ready(ctx)
						<-ctx.Done()
						return nil
					}
				}
				r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
					Children: []supervisor.Child{before, g, x.child(), last}})
				a.now(boom)
				time.Sleep(3 * time.Second) // what hangs was abandoned after 2 s
				stuckOf(t, r.Restart(t.Context(), "root/g"))
				time.Sleep(2 * time.Minute)
				close(letGo)
				err := r.end()
				var esc *supervisor.EscalationError
				if !errors.As(err, &esc) || !strings.Contains(esc.Reason, "still running") {
					t.Errorf("Run returned %v", err)
				}
				want(t, j.take(), "+x", "-x")
			})
		})
	}
}

func TestARestartByHandOfWhatHasEndedUntoldKeepsTheOrderOfItsGroup(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %v", gate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				office, ended, told := endsUntold()
				office.Gate = gate
				a, x := newActor(new(journal), "a"), newActor(&j, "x")
				first := a.child()
				first.Backoff = every(time.Minute)
				r := start(t, supervisor.Tree{Strategy: supervisor.OneForAll,
					Children: []supervisor.Child{first, office, x.child()}})
				a.now(boom)
				time.Sleep(10 * time.Second)
				want(t, j.take(), "+x", "-x")
				ended()
				answer := asked(func() error { return r.Restart(t.Context(), "root/office") })
				time.Sleep(time.Minute) // the group's start is due
				none(t, answer)
				want(t, j.take())
				told()
				given(t, answer, nil)
				want(t, j.take(), "+x")
				r.mustEnd(t)
			})
		})
	}
}
