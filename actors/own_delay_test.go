package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Whoever ends the session of its own predecessor, which is known to be dead, has done with what
// that had locked first: else it would wait for the lock-delay itself, while its items move.
func TestASuccessorWaitsForNoLockDelayOfItsDeadPredecessor(t *testing.T) {
	for name, victim := range map[string]func(*cluster) string{
		"a follower": (*cluster).follower, "the leader": (*cluster).leader,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				slowly := func(cfg *actors.Config) { cfg.LockDelay = 15 * time.Second }
				c.addWork(c.items(30)...)
				for _, id := range []string{"n1", "n2", "n3"} {
					c.start(id, slowly)
				}
				c.await("30 items run", 20*time.Second, c.balanced(30))
				begun := c.totalStarts()

				id := victim(c)
				was := *c.members[id].c.Settings().Process
				c.kill(id)
				time.Sleep(2 * time.Second)
				c.start(id, slowly, func(cfg *actors.Config) {
					cfg.Liveness = func(p actors.Process) actors.Liveness {
						if p.Instance == was.Instance {
							return actors.Dead
						}
						return actors.Unknown
					}
				})
				c.await("its items again", 2*time.Second, c.balanced(30))
				c.await("a leader", 2*time.Second, func() bool { return c.leader() != "" })
				c.awaitLead(2 * time.Second)
				time.Sleep(time.Minute)
				if n := c.totalStarts() - begun; n != 10 {
					t.Errorf("%d starts to resume 10 items", n)
				}
			})
		})
	}
}

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
		c.must(c.store.Put(c.t.Context(), e.Key, ack.Encode(), 0))
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
