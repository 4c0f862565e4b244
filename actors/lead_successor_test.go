package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// Of a process that says only that its work has ended it is not known whether its Lead has: a
// host's may have been abandoned when it stopped, and then it could not resign.
func TestASuccessorResignsForNoPredecessorThatMayStillLead(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 3)
		c.removeWork(c.items(3)...)
		c.await("no work", 10*time.Second, c.balanced(0))
		old := c.leader()
		first := c.members[old]
		defer func() {
			first.cancel()
			<-first.done
		}()
		first.net.Cut(errors.New("connection refused"))
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Ack(old), store.Consistent)
		c.must(err)
		ack, err := protocol.ParseAck(e.Value)
		c.must(err)
		ack.Stopped = true
		c.must(keys.Put(c.t.Context(), c.store, e.Key, ack.Encode(), 0))
		second := c.start(old)
		c.await("the successor is in", 2*time.Second, func() bool {
			return second.c.Membership().Get().In(second.c.Session().Get().ID)
		})
		c.awaitTerm(2*time.Second, "")
		c.await("the first's Lead has ended", 10*time.Second, func() bool {
			return c.leader() == "" // no other has begun: start holds the test to that
		})
		c.awaitLead(3 * time.Second)
	})
}
