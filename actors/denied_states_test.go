package actors_test

import (
	"strings"
	"sync/atomic"
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

// Where the token does not allow what is noted of work that fails, members come and go as ever, and
// such work is started again for ever.
func TestWhereNoQuarantineIsAllowedWorkThatFailsLoops(t *testing.T) {
	for _, part := range []string{"/quarantine/", "/states/"} {
		logged(t, func(w watched) {
			w.way = denying(w.consul.RoundTripper(), "", part)
			var tries atomic.Int64
			items := w.items(6)
			w.addWork(items...)
			for _, id := range []string{"n1", "n2", "n3"} {
				w.start(id, limited(2), w.failing(&tries, func(_, item string) bool {
					return item == items[0]
				}))
			}
			w.await("the others run", time.Minute, w.runs(items[1:]))
			time.Sleep(5 * time.Minute)
			w.kill(w.leader())
			w.await("the others run again", time.Minute, w.runs(items[1:]))
			before := tries.Load()
			time.Sleep(5 * time.Minute)
			if tries.Load() == before || w.noted(items[0]) {
				w.t.Errorf("%s denied: %d tries more", part, tries.Load()-before)
			}
		})
	}
}
