package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

// A lost member's items wait, until when is said, and that holds.
func TestALostMembersItemsWaitUntilWhenItIsSaid(t *testing.T) {
	for name, settings := range map[string]option{
		"by default":   func(*actors.Config) {},
		"with a lease": func(cfg *actors.Config) { cfg.Lease = 4 * time.Second },
		"with a grace": func(cfg *actors.Config) { cfg.Grace = 30 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				op := c.operator()
				c.addWork(c.items(9)...)
				for _, id := range []string{"n1", "n2", "n3"} {
					c.start(id, settings)
				}
				c.await("all items", 60*time.Second, c.balanced(9))
				lost := c.follower()
				items := c.itemsOf(lost)
				c.kill(lost)
				var until time.Time
				c.await("an end of the wait", 40*time.Second, func() bool {
					_, all, err := op.Items(c.t.Context())
					if err != nil {
						c.t.Fatal(err)
					}
					for _, i := range all {
						if i.ID == items[0] && i.State == operator.ItemWaiting {
							until = i.Until
						}
					}
					return !until.IsZero()
				})
				// It was said when the absence was confirmed, and not first after a while.
				if left := time.Until(until); left < 3500*time.Millisecond {
					c.t.Errorf("the end of the wait is said %v before it", left)
				}
				c.await("the take-over", 60*time.Second, func() bool {
					_, all, err := op.Items(c.t.Context())
					if err != nil {
						c.t.Fatal(err)
					}
					for _, i := range all {
						if i.Member == lost {
							return false
						}
					}
					return true
				})
				if late := time.Since(until); late > 200*time.Millisecond || late < -time.Second {
					c.t.Errorf("the items were given away %v after %v", late, until)
				}
			})
		})
	}
}
