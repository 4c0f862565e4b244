package actors_test

import (
	"testing"
	"time"
)

func TestALeaderThatIsDrainedHandsItsLeadershipOver(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		c.addWork(c.items(30)...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id)
		}
		c.await("30 items run", 20*time.Second, c.balanced(30))
		first := c.leader()
		if err := op.Drain(c.t.Context(), first); err != nil {
			c.t.Fatal(err)
		}
		took := c.await("another leads", 10*time.Second, func() bool {
			l := c.leader()
			return l != "" && l != first
		})
		c.t.Logf("handed over within %v", took)
		c.await("it is empty", 20*time.Second, func() bool {
			l := c.loads()
			return l[first] == 0 && l["n1"]+l["n2"]+l["n3"] == 30
		})
		if n := c.totalStarts(); n != 40 {
			c.t.Errorf("%d starts of 30 items of which 10 had to move", n)
		}
		second := c.leader()
		time.Sleep(20 * time.Minute)
		if c.leader() != second {
			c.t.Errorf("%s led, and now %q", second, c.leader())
		}
	})
}

func TestADrainedLeaderLeadsOnWhenNobodyElseMay(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		c.addWork(c.items(4)...)
		c.start("n1")
		c.await("4 items run", 20*time.Second, c.balanced(4))
		c.must(op.Drain(c.t.Context(), "n1"))
		c.must(op.Drain(c.t.Context(), "n2"))
		c.start("n2")
		time.Sleep(time.Minute)
		if c.leader() != "n1" {
			c.t.Errorf("%q leads", c.leader())
		}
		c.start("n3")
		c.await("n3 leads", 20*time.Second, func() bool { return c.leader() == "n3" })
		c.await("n3 has all", 20*time.Second, func() bool { return c.loads()["n3"] == 4 })
		// It dies, and the drained are all there is.
		c.kill("n3")
		c.await("a drained one leads", 2*time.Minute, func() bool { return c.leader() != "" })
	})
}

// The host's duty may take long to end: meanwhile the leader goes on with the rest.
func TestADrainedLeaderLeadsUntilItsDutyHasEnded(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		c.start("n1", resignsIn(9*time.Second))
		c.await("n1 leads", 20*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		time.Sleep(10 * time.Second)
		if err := op.Drain(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Second)
		item := c.items(1)
		c.addWork(item...)
		c.await("the item", 3*time.Second, c.runs(item))
		c.await("n2 leads", 20*time.Second, func() bool { return c.leader() == "n2" })
	})
}
