package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// TestItemsStayInTheirZone stops a member in each of two zones at one time.
func TestItemsStayInTheirZone(t *testing.T) {
	run(t, func(c *cluster) {
		zones := map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
		c.addWork(c.items(100)...)
		for _, id := range []string{"n1", "n2", "n3", "n4"} {
			c.start(id, func(cfg *actors.Config) { cfg.Zone = zones[id] })
		}
		c.await("all run", time.Minute, c.balanced(100))
		before := c.owners()
		op := c.operator()
		for _, id := range []string{"n2", "n4"} {
			c.must(op.Drain(c.t.Context(), id))
		}
		c.await("all run in their places", time.Minute, func() bool {
			loads := c.loads()
			return loads["n1"] == 50 && loads["n3"] == 50
		})
		for item, owner := range c.owners() {
			e, err := op.Explain(c.t.Context(), item)
			c.must(err)
			if was := before[item]; zones[was] != zones[owner] {
				c.t.Errorf("%s was at %s in zone %s, and is at %s in zone %s", item, was,
					zones[was], owner, zones[owner])
			} else if was != owner && e.There != "its former owner was drained; it prefers zone "+
				zones[was] {
				c.t.Errorf("%s: %s", item, e.There)
			}
		}
	})
}
