package actors_test

import (
	"maps"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/keys"
)

// startsBy counts the starts of each item so far.
func (c *cluster) startsBy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.starts)
}

func TestARestartStartsTheWorkOnceMoreAtTheSameMember(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		ctx := c.t.Context()
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
		c.must(op.Restart(ctx, item))
		restarted(item)
		c.must(op.Restart(ctx, item))
		restarted(item)
		var of []string
		for id, at := range owners {
			if at == "n2" {
				of = append(of, id)
			}
		}
		c.must(op.RestartMember(ctx, "n2"))
		restarted(of...)

		// Neither a new leader nor its new epoch carries an order out again.
		leader := c.leader()
		c.must(keys.Put(ctx, c.store, c.store.Keys().Leader(), []byte("a stranger's"), 0))
		time.Sleep(30 * time.Second)
		restarted()
		c.must(op.Drain(ctx, leader))
		c.await("it is drained", time.Minute, func() bool { return c.loads()[leader] == 0 })
		c.must(op.Undrain(ctx, leader))
		c.await("it has its share", time.Minute, c.balanced(12))
		owners, starts = c.owners(), c.startsBy()
		restarted()

		// One that is given while nothing moves is carried out afterwards.
		c.must(op.Freeze(ctx))
		time.Sleep(5 * time.Second)
		c.must(op.Restart(ctx, item))
		restarted()
		c.must(op.Thaw(ctx))
		restarted(item)
	})
}
