package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

func TestADrainedMemberGivesUpWithinTheBudgetUntilTheDeadline(t *testing.T) {
	run(t, func(c *cluster) {
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			c.t.Fatal(err)
		}
		const stopping = 4 * time.Second
		slow := func(cfg *actors.Config) {
			work := cfg.Work
			cfg.MoveBudget = 2
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
				defer cancel()
				context.AfterFunc(ctx, func() { time.AfterFunc(stopping, cancel) })
				return work(lasting, item)
			}
		}
		c.addWork(c.items(24)...)
		c.start("n1", slow)
		c.start("n2", slow)
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
