package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
)

// What a lost member ran has waited for its lease: its receivers do not soak it on top of that.
func TestWhatIsTakenOverFromALostMemberIsNotSoaked(t *testing.T) {
	for _, soak := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
		t.Run(soak.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				startWith(c, actors.Config{Timing: actors.Timing{WorkerSoak: soak}})
				victim := c.follower()
				b := c.members[victim].c.Settings().Bounds()
				c.kill(victim)
				// The lease is the default: the TTL, and as long as the grace.
				wait := b.Detect.Total() + store.DefaultTTL
				took := c.await("its items elsewhere", time.Minute, c.balanced(30))
				t.Logf("with a soak of %v its items run elsewhere after %v, %v of it detection "+
					"and lease", soak, took, wait)
				if took > wait+200*time.Millisecond {
					t.Errorf("taken over after %v; want %v, for detection and lease, and next to "+
						"nothing else", took, wait)
				}
			})
		})
	}
}

// An item that is new is soaked as before: another order about it may follow at once.
func TestANewItemIsSoaked(t *testing.T) {
	run(t, func(c *cluster) {
		startWith(c, actors.Config{Timing: actors.Timing{WorkerSoak: 3 * time.Second}})
		c.addWork("one more")
		if took := c.await("it runs", 10*time.Second, c.balanced(31)); took < 3*time.Second {
			t.Errorf("it began %v after it was added, within the soak", took)
		}
	})
}

// Several are lost one after another, and others come meanwhile: nothing is started that is moved
// again.
func TestATakeOverWithoutASoakMovesNothingTwice(t *testing.T) {
	for _, lease := range []time.Duration{3 * time.Second, 10 * time.Second} {
		for apart := range 5 {
			if raceDetector && apart%2 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("lease %v, %d x 300ms apart", lease, apart), func(t *testing.T) {
				run(t, func(c *cluster) {
					set := func(cfg *actors.Config) { cfg.Lease = lease }
					c.addWork(c.items(80)...)
					for i := range 8 {
						c.start(fmt.Sprintf("n%d", i), set)
					}
					c.await("shared out", time.Minute, c.balanced(80))
					c.await("somebody leads", time.Minute, func() bool { return c.leader() != "" })
					c.await("settled", time.Minute, func() bool {
						return c.members[c.leader()].c.Distribution().Get().Settled
					})
					before := c.totalStarts()
					for range 3 {
						c.kill(c.follower())
						time.Sleep(time.Duration(apart) * 300 * time.Millisecond)
					}
					time.Sleep(lease + 2*time.Second)
					c.start("late", set)
					// the newcomer's share, in place of what it would have been given at once
					c.await("shared out again", 2*time.Minute, c.balanced(80))
					time.Sleep(time.Minute)
					share := c.loads()["late"]
					if n := c.totalStarts() - before; n > 30+share {
						t.Errorf("%d starts for 30 items of the lost and %d of the one that came",
							n, share)
					}
				})
			})
		}
	}
}
