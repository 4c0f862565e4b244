package supervisor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

func TestARestartedManagerFindsTheChildrenOfItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		worker := newActor(&j, "worker")
		manager := supervisor.Child{Name: "manager", Backoff: every(time.Second),
			Run: func(ctx context.Context) error {
				if h, ok := supervisor.Of(ctx).Child("worker"); ok {
					j.add("found " + h.Name())
					<-ctx.Done()
					return nil
				}
				if _, err := supervisor.Of(ctx).Start(worker.child()); err != nil {
					return err
				}
				return errBoom
			}}
		r := start(t, supervisor.Tree{Children: []supervisor.Child{manager}})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(t, j.take(), "+worker", "found worker")
		r.mustEnd(t)
	})
}

func TestDynamicChildrenTakePartInAGroupRestartAndNotInTheirTreesNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		r, g := startGroup(t, supervisor.Tree{Strategy: supervisor.RestForOne, MaxRestarts: 1,
			Children: []supervisor.Child{a.child()}})
		mustStart(t, g, newActor(&j, "x").child())
		a.now(boom)
		// Started while the group waits: it takes its turn after the others.
		if _, err := g.Start(newActor(&j, "y").child()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, j.take(), "+a", "+x", "-a", "-x")
		time.Sleep(time.Second)
		synctest.Wait()
		got := j.take()
		slices.Sort(got)
		want(t, got, "+a", "+x", "+y")
		a.now(boom)
		<-r.done
		want(t, j.take(), "-a", "-y", "-x")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		want(t, j.take(), "+a", "-a")
		r.stop()
	})
}
