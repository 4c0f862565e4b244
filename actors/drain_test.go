package actors_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

func TestNoMoreThanAShareOfTheItemsIsOnTheMove(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		share := func(cfg *actors.Config) { cfg.MoveBudgetShare = 0.1 } // 2 of 20 at one time
		c.addWork(c.items(20)...)
		c.start("n1", share)
		c.await("20 items run", 2*time.Minute, c.balanced(20))
		c.start("n2", share)
		most := 0
		c.await("they are even", time.Minute, func() bool {
			status, err := op.Status(c.t.Context())
			if err != nil {
				c.t.Fatal(err)
			}
			most = max(most, status.Work.Releasing)
			return c.balanced(20)()
		})
		if most > 2 {
			c.t.Errorf("%d of 20 items were on the move: the budget is a tenth", most)
		}
	})
}

func TestADrainedMemberGivesUpWithinTheBudgetUntilTheDeadline(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		const stopping = 4 * time.Second
		budget := func(cfg *actors.Config) { cfg.MoveBudget = 2 }
		c.addWork(c.items(24)...)
		c.start("n1", stopsIn(stopping), budget)
		c.start("n2", stopsIn(stopping), budget)
		c.await("24 items run", 2*time.Minute, c.balanced(24))
		deadline := time.Now().Add(15 * time.Second)
		if err := op.DrainBy(c.t.Context(), "n1", deadline); err != nil {
			c.t.Fatal(err)
		}
		for time.Now().Before(deadline.Add(-time.Second)) {
			time.Sleep(100 * time.Millisecond)
			status, err := op.Status(c.t.Context())
			if err != nil {
				c.t.Fatal(err)
			}
			if status.Work.Releasing > 2 {
				c.t.Fatalf("%d items are being released", status.Work.Releasing)
			}
		}
		if left := c.loads()["n1"]; left < 4 || left > 8 {
			c.t.Errorf("%d of 12 items are left before the deadline", left)
		}
		c.await("n1 is empty", 3*time.Second+stopping, func() bool {
			n, err := op.ItemsLeft(c.t.Context(), "n1")
			return err == nil && n == 0
		})
	})
}

// Work that does not stop, however long it is asked to, keeps no others from being moved.
func TestADrainGoesOnBesideWorkThatDoesNotStop(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		over := make(chan struct{})
		defer close(over)
		var stopped atomic.Int32
		c.addWork(c.items(12)...)
		for _, id := range []string{"n1", "n2"} {
			c.start(id, func(cfg *actors.Config) {
				work := cfg.Work
				cfg.MoveBudget = 2
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					err := work(ctx, item)
					if id == "n1" && stopped.Add(1) <= 3 {
						<-over
					}
					return err
				}
			})
		}
		c.await("12 items run", 2*time.Minute, c.balanced(12))
		if err := op.Drain(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		left, err := op.ItemsLeft(c.t.Context(), "n1")
		if err != nil {
			c.t.Fatal(err)
		}
		if left != 3 {
			c.t.Errorf("%d items are left at n1, where the work of 3 does not stop", left)
		}
	})
}

func TestADrainedMemberIsEmptiedAndAPinnedItemComesToItsMember(t *testing.T) {
	run(t, func(c *cluster) {
		ctx := c.t.Context()
		op := c.operator()
		c.must(op.AddWork(ctx, operator.WorkInput{ID: "a"}, operator.WorkInput{ID: "b"},
			operator.WorkInput{ID: "c"}, operator.WorkInput{ID: "d"}))
		c.start("n1")
		c.start("n2")
		c.await("4 items run", 20*time.Second, c.balanced(4))
		c.must(op.Drain(ctx, "n1"))
		c.await("n1 is empty", 20*time.Second, func() bool {
			l := c.loads()
			return l["n1"] == 0 && l["n2"] == 4
		})
		c.must(op.Undrain(ctx, "n1"))
		c.await("n1 has its share", 30*time.Second, c.balanced(4))
		for _, w := range []string{"a", "b", "c", "d"} {
			c.must(op.Pin(ctx, w, "n2"))
		}
		c.await("all are at n2", 30*time.Second, func() bool { return c.loads()["n2"] == 4 })
		for _, w := range []string{"a", "b", "c", "d"} {
			c.must(op.Unpin(ctx, w))
		}
		c.await("shared again", 30*time.Second, c.balanced(4))
		c.must(op.Freeze(ctx))
		time.Sleep(time.Second)
		c.must(op.AddWork(ctx, operator.WorkInput{ID: "e"}))
		time.Sleep(20 * time.Second)
		status, err := op.Status(ctx)
		c.must(err)
		if !status.Frozen || status.Work.Free != 1 {
			c.t.Errorf("frozen: %+v", status)
		}
		c.must(op.Thaw(ctx))
		c.await("the new one runs", 20*time.Second, c.balanced(5))
	})
}
