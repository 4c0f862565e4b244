package actors_test

import (
	"maps"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// startsBy counts the starts of each item so far.
func (c *cluster) startsBy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.starts)
}

func TestARestartStartsTheWorkOnceMoreAtTheSameMember(t *testing.T) {
	run(t, func(c *cluster) {
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			c.t.Fatal(err)
		}
		ctx := c.t.Context()
		must := func(err error) {
			c.t.Helper()
			if err != nil {
				c.t.Fatal(err)
			}
		}
		const item = "device_group_0003"
		c.addWork(c.items(12)...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id)
		}
		c.await("12 items run", 20*time.Second, c.balanced(12))
		owners, starts := c.owners(), c.startsBy()
		restarted := func(ids ...string) {
			c.t.Helper()
			for _, id := range ids {
				starts[id]++
			}
			c.await("the work has started once more", 20*time.Second, func() bool {
				return maps.Equal(c.startsBy(), starts) && maps.Equal(c.owners(), owners)
			})
			time.Sleep(time.Minute)
			if got := c.startsBy(); !maps.Equal(got, starts) {
				c.t.Fatalf("starts are %v; want %v", got, starts)
			}
		}
		must(op.Restart(ctx, item))
		restarted(item)
		must(op.Restart(ctx, item))
		restarted(item)
		var of []string
		for id, at := range owners {
			if at == "n2" {
				of = append(of, id)
			}
		}
		must(op.RestartMember(ctx, "n2"))
		restarted(of...)

		// Neither a new leader nor its new epoch carries an order out again.
		leader := c.leader()
		must(c.store.Put(ctx, c.store.Keys().Leader(), []byte("a stranger's"), 0))
		time.Sleep(30 * time.Second)
		restarted()
		must(op.Drain(ctx, leader))
		c.await("it is drained", time.Minute, func() bool { return c.loads()[leader] == 0 })
		must(op.Undrain(ctx, leader))
		c.await("it has its share", time.Minute, c.balanced(12))
		owners, starts = c.owners(), c.startsBy()
		restarted()

		// One that is given while nothing moves is carried out afterwards.
		must(op.Freeze(ctx))
		time.Sleep(5 * time.Second)
		must(op.Restart(ctx, item))
		restarted()
		must(op.Thaw(ctx))
		restarted(item)
	})
}

func TestARestartIsNotRepeatedWhenAnItemIsCalledBack(t *testing.T) {
	run(t, func(c *cluster) {
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			c.t.Fatal(err)
		}
		ctx := c.t.Context()
		must := func(err error) {
			c.t.Helper()
			if err != nil {
				c.t.Fatal(err)
			}
		}
		c.addWork("a")
		c.start("n1")
		c.start("n2")
		c.await("it runs", 20*time.Second, c.balanced(1))
		at := c.owners()["a"]
		must(op.Restart(ctx, "a"))
		c.await("it has started again", 20*time.Second, func() bool {
			return c.startsOf("a") == 2
		})
		for range 5 { // asked for, and mostly called back
			must(op.Drain(ctx, at))
			must(op.Undrain(ctx, at))
			time.Sleep(10 * time.Second)
		}
		n := c.startsOf("a")
		if n > 7 {
			c.t.Errorf("%d starts", n)
		}
		must(op.Restart(ctx, "a"))
		time.Sleep(time.Minute)
		if got := c.startsOf("a"); got != n+1 {
			c.t.Errorf("%d starts, then %d", n, got)
		}
	})
}

// While a member that has stopped is waited for nothing is moved for balance, for as long as it has
// asked for: a restart does not wait for such moves.
func TestARestartDoesNotWaitForMovesThatArePutOff(t *testing.T) {
	run(t, func(c *cluster) {
		op, err := actors.NewOperator(c.client, "demo")
		if err != nil {
			c.t.Fatal(err)
		}
		items := c.items(12)
		c.addWork(items...)
		c.start("n1")
		c.start("n2", keeping(24*time.Hour))
		c.await("12 items run", 20*time.Second, c.balanced(12))
		c.stop("n2")
		c.start("n3")
		time.Sleep(20 * time.Second)
		if n := c.loads()["n1"]; n != 6 {
			c.t.Fatalf("n1 has %d items", n)
		}
		if err := op.RestartMember(c.t.Context(), "n1"); err != nil {
			c.t.Fatal(err)
		}
		c.await("6 items have started once more", 10*time.Second, func() bool {
			return c.totalStarts() == 18
		})
	})
}
