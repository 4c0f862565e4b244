package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
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
