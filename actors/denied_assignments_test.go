package actors_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// What a member holds that may not touch its own assignments is nobody else's, for as long as it
// lives; it is theirs when the right is back, or when the member is stopped.
func TestAMemberThatMayNotTouchItsOwnAssignmentsKeepsThem(t *testing.T) {
	for _, end := range []string{"the right is back", "it is stopped"} {
		t.Run(end, func(t *testing.T) {
			run(t, func(c *cluster) {
				var denied atomic.Bool
				items := c.items(6)
				c.addWork(items...)
				c.start("n1")
				c.await("n1 leads", time.Minute, func() bool { return c.leader() == "n1" })
				c.way = deniedOn(c.consul.RoundTripper(), &denied, holding("assignments/n2/"))
				c.start("n2")
				c.await("all run", time.Minute, c.balanced(6))
				denied.Store(true)
				kept := c.itemsOf("n2")
				c.put("control/drain/n2", "")
				time.Sleep(2 * time.Minute)
				c.addWork("late")
				c.await("a late one runs", 5*time.Second, c.runs([]string{"late"}))
				for _, item := range kept {
					if id := c.owners()[item]; id != "" && id != "n2" {
						t.Errorf("%s is at %s, and n2 has not given it up", item, id)
					}
				}
				limit := 40 * time.Second
				if end == "it is stopped" {
					limit = 33 * time.Second // without a check, as if it had died
					c.stop("n2")
				}
				denied.Store(end == "it is stopped")
				if _, ok := testkit.Virtual(limit, 50*time.Millisecond,
					c.runs(append(items, "late"))); !ok {
					t.Errorf("not all run %v after %s: %v", limit, end, c.owners())
				}
			})
		})
	}
}
