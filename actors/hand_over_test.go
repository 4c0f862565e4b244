package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
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

// A member that has handed its leadership over leaves it to others for 5 s. When one of them is gone
// after that, it takes the leadership at once.
func TestWhoHasHandedOverLeadsAgainWhenTheNextOneIsGone(t *testing.T) {
	for name, goes := range map[string]func(c *cluster, second string){
		"it stops": func(c *cluster, second string) { c.stop(second) },
		"it is drained": func(c *cluster, second string) {
			c.must(c.operator().Drain(c.t.Context(), second))
			c.await("it hands over", 5*time.Second, func() bool { return c.leader() != second })
		},
	} {
		run(t, func(c *cluster) {
			op := c.operator()
			c.addWork(c.items(10)...)
			c.start("n1")
			c.start("n2")
			c.await("10 items run", 20*time.Second, c.balanced(10))
			bound := c.members["n1"].c.Settings().Formulas().HandOver.Total()
			first, second := c.leader(), c.follower()
			c.must(op.Drain(c.t.Context(), first))
			c.await("the other leads", 10*time.Second, func() bool { return c.leader() == second })
			c.await("it has all", 10*time.Second, func() bool { return c.loads()[second] == 10 })
			c.must(op.Undrain(c.t.Context(), first))
			time.Sleep(5 * time.Second)
			goes(c, second)
			c.addWork("new")
			took := c.await("the new item runs", time.Minute, c.runs([]string{"new"}))
			if took > bound {
				t.Errorf("%s: an item that was added runs after %v; the bound is %v", name, took,
					bound)
			}
			if c.leader() != first {
				t.Errorf("%s: %q leads", name, c.leader())
			}
		})
	}
}

func TestADrainedLeadersDutyEndsBeforeTheNextOnesBegins(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		ended := make(chan time.Time, 1)
		c.start("n1", resignsIn(4*time.Second), func(cfg *actors.Config) {
			duty := cfg.Lead
			cfg.Lead = func(ctx context.Context) error {
				defer func() { ended <- time.Now() }()
				return duty(ctx)
			}
		})
		c.await("n1 leads", 20*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		time.Sleep(10 * time.Second)
		if err := op.Drain(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		c.await("n2 leads", 20*time.Second, func() bool { return c.leader() == "n2" })
		select {
		case at := <-ended:
			if waited := time.Since(at); waited > 2*time.Second {
				c.t.Errorf("n2's duty began %v after the end of n1's", waited)
			}
		default:
			c.t.Error("n1's duty has not ended")
		}
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

// A leadership that may not be given up is kept.
func TestADrainedLeaderThatMayNotResignLeadsOn(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		c.way = denying(c.consul.RoundTripper(), `"delete"`, "demo/leader")
		c.start("n1")
		c.await("n1 leads", 20*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		time.Sleep(10 * time.Second)
		if err := op.Drain(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		item := c.items(1)
		c.addWork(item...)
		c.await("the item", 3*time.Second, c.runs(item))
	})
}
