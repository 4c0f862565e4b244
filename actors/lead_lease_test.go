package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// A request that is not answered keeps its actor waiting. The lease ends all the same.
func TestALeaderSaysThatItLeadsNoLongerThanItsLease(t *testing.T) {
	for _, after := range []time.Duration{0, 400 * time.Millisecond, 800 * time.Millisecond,
		1200 * time.Millisecond, 1600 * time.Millisecond, 2 * time.Second, 2400 * time.Millisecond,
		2800 * time.Millisecond, 3200 * time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			run(t, func(c *cluster) {
				c.start("n1")
				c.start("n2")
				c.addWork(c.items(4)...)
				c.await("shared out", 20*time.Second, c.balanced(4))
				time.Sleep(after)
				n := c.members[c.leader()]
				thawed := make(chan struct{})
				defer close(thawed)
				c.addWork("one more") // what the leader writes of it gets no answer
				time.Sleep(100 * time.Millisecond)
				n.net.Via(transport.Frozen(c.consul.RoundTripper(), thawed))
				frozen := time.Now()
				for time.Since(frozen) < 30*time.Second {
					time.Sleep(10 * time.Millisecond)
					lease := n.c.Session().Get().Lease
					if left := lease.Left(time.Now()); left < n.c.Settings().LeaseMargin &&
						n.c.Leadership().Get().Role == messages.Leading {
						t.Fatalf("%v after it was cut off it says that it leads, with %v of its "+
							"lease left", time.Since(frozen), left)
					}
				}
				n.net.Via(c.consul.RoundTripper())
				c.await("all in order again", 60*time.Second, c.balanced(5))
			})
		})
	}
}
