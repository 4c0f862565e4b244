package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// The grace of each begins when the leader has asked about it, and each takes two requests.
func TestManyMembersLostAtOnceOnASlowConsulAreWaitedForTogether(t *testing.T) {
	const lost = 30
	run(t, func(c *cluster) {
		way := transport.NewWire(c.consul.RoundTripper())
		brake := func(cfg *actors.Config) { cfg.BrakeHold = time.Millisecond }
		c.way = way
		c.start("n1", brake)
		c.awaitLead(10 * time.Second)
		c.way = nil
		for i := range lost {
			c.start(fmt.Sprintf("m%02d", i), brake)
		}
		c.addWork(c.items(lost + 1)...)
		c.await("all work", time.Minute, c.balanced(lost+1))
		time.Sleep(10 * time.Second)
		takes := func() time.Duration { return 200 * time.Millisecond }
		way.Slow(takes)
		for i := range lost {
			c.blind(fmt.Sprintf("m%02d", i))
		}
		took := c.await("all work at the one that is left", time.Minute, func() bool {
			return c.loads()["n1"] == lost+1
		})
		way.Via(c.consul.RoundTripper())
		if most := 10*time.Second + lost*600*time.Millisecond/3; took > most {
			t.Errorf("the last item was taken over after %v; want %v at the most", took, most)
		}
	})
}
