package supervisor_test

import (
	"context"
	"errors"
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
