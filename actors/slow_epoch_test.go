package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// However little is left of the lease when a stranger touches the leader key: while the lease is
// renewed there is time for all that the new epoch takes. An item that is added then waits for
// eight answers of Consul: the reads and writes of the new epoch, and what the item takes anyway.
func TestALeaderWhoseKeyIsTouchedPlansOnAlsoOnASlowConsul(t *testing.T) {
	for _, is := range []struct{ lease, answer time.Duration }{
		{10 * time.Second, 1900 * time.Millisecond}, {3 * time.Second, 580 * time.Millisecond},
	} {
		for phase := range 10 {
			t.Run(fmt.Sprintf("lease %v answers %v phase %d", is.lease, is.answer, phase),
				func(t *testing.T) {
					run(t, func(c *cluster) {
						way := transport.NewWire(c.consul.RoundTripper())
						c.way = way
						n1 := c.start("n1", func(cfg *actors.Config) { cfg.Lease = is.lease })
						c.addWork(c.items(9)...)
						c.await("all work", time.Minute, c.balanced(9))
						term := n1.c.Leadership().Get().Term
						way.Slow(func() time.Duration { return is.answer })
						time.Sleep(20*time.Second + time.Duration(phase)*n1.c.Settings().Renew/10)
						c.put("leader", "n1 ")
						c.addWork("late")
						most := 2500*time.Millisecond + 8*is.answer
						c.await("the new item", most, c.runs([]string{"late"}))
						if l := n1.c.Leadership().Get(); l.Term != term {
							t.Errorf("%+v: want term %d", l, term)
						}
						way.Via(c.consul.RoundTripper())
					})
				})
		}
	}
}
