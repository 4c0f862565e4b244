package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

func TestACapacityThatChangesIsObeyedWithoutANewRegistration(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		n1 := c.start("n1", func(cfg *actors.Config) { cfg.Capacity = 4 })
		c.await("four of ten at n1", 20*time.Second, func() bool { return c.loads()["n1"] == 4 })
		before := n1.c.Membership().Get()
		n1.c.SetCapacity(7)
		c.await("seven", 20*time.Second, func() bool { return c.loads()["n1"] == 7 })
		c.start("n2")
		c.await("five each", 30*time.Second, func() bool {
			l := c.loads()
			return l["n1"] == 5 && l["n2"] == 5
		})
		n1.c.SetCapacity(2)
		c.await("what is too much moves", 30*time.Second, func() bool {
			l := c.loads()
			return l["n1"] == 2 && l["n2"] == 8
		})
		n1.c.SetCapacity(0)
		c.await("no limit any more", 30*time.Second, func() bool {
			l := c.loads()
			return l["n1"] == 5 && l["n2"] == 5
		})
		n1.c.SetCapacity(actors.NoItems)
		c.await("none at n1", 30*time.Second, func() bool { return c.loads()["n2"] == 10 })
		n1.c.SetCapacity(0)
		c.await("no limit again", 30*time.Second, func() bool {
			l := c.loads()
			return l["n1"] == 5 && l["n2"] == 5
		})
		after := n1.c.Membership().Get()
		if after.Session != before.Session || after.Index != before.Index {
			t.Errorf("it has registered again: %+v, was %+v", after, before)
		}
	})
}
