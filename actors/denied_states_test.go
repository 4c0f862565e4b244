package actors_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// Where the token allows no summaries a member stops, and one that is lost is swept, as ever.
func TestWhereNoSummariesAreAllowedMembersComeAndGoAsEver(t *testing.T) {
	run(t, func(c *cluster) {
		c.way = denying(c.consul.RoundTripper(), "", "/states/")
		items := c.items(9)
		three(c, 9)
		c.stop(c.follower())
		c.await("handed over", 3*time.Second, c.runs(items))
		lost := c.follower()
		c.kill(lost)
		c.await("swept", time.Minute, func() bool {
			for _, e := range c.consul.Dump().Entries {
				if strings.HasPrefix(e.Key, c.store.Keys().Ack(lost)) {
					return false
				}
			}
			return true
		})
		c.start("keeps", func(cfg *actors.Config) { cfg.KeepItems = time.Hour })
		c.await("shared out", 30*time.Second, func() bool { return len(c.itemsOf("keeps")) > 0 })
		its := c.itemsOf("keeps")
		c.stop("keeps")
		time.Sleep(10 * time.Minute)
		if c.runs(its[:1])() {
			c.t.Errorf("%s was to wait for its member, and runs", its[0])
		}
	})
}
