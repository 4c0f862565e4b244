package actors_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// A rollout stops and starts every member in turn (fault 23).

func keeping(d time.Duration) option { return func(cfg *actors.Config) { cfg.KeepItems = d } }

func TestARolloutMovesNoItemWithKeepItems(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99, keeping(time.Minute))
		owners := c.owners()
		starts := 99
		// each on another host than before, and one of them leads
		for _, id := range []string{"n1", "n2", "n3"} {
			c.stop(id)
			time.Sleep(40 * time.Second) // longer than session and grace would have waited
			if n := c.totalStarts(); n != starts {
				t.Fatalf("%d starts while %s was away, want %d", n, id, starts)
			}
			c.start(id, keeping(time.Minute))
			took := c.await("its items again", 5*time.Second, c.balanced(99))
			t.Logf("%s resumed after %v", id, took)
			starts += 33
		}
		time.Sleep(time.Minute)
		if n := c.totalStarts(); n != starts {
			t.Errorf("%d starts in the end, want %d", n, starts)
		}
		if now := c.owners(); !maps.Equal(now, owners) {
			t.Errorf("owners before %v, now %v", owners, now)
		}
	})
}

func TestItemsThatWaitInVainAreTakenOver(t *testing.T) {
	for _, keep := range []time.Duration{2 * time.Second, 45 * time.Second} {
		t.Run(keep.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 99, keeping(keep))
				victim := c.follower()
				c.stop(victim)
				took := c.await("its items elsewhere", keep+5*time.Second, c.balanced(99))
				if took < keep {
					t.Errorf("taken over after %v: it had asked for %v", took, keep)
				}
				if n := c.totalStarts() - 99; n != 33 {
					t.Errorf("%d moves for 33 items", n)
				}
				c.start(victim, keeping(keep))
				c.await("its share again", 30*time.Second, c.balanced(99))
			})
		})
	}
}

func TestItemsCalledBackFromAMemberThatStopsAreReleasedAllTheSame(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99, keeping(time.Minute))
		victim := c.follower()
		for item, owner := range c.owners() {
			if owner == victim {
				c.removeWork(item)
				break
			}
		}
		// long enough for the order, which the merge delays, to be under way as it stops
		time.Sleep(300 * time.Millisecond)
		c.stop(victim)
		time.Sleep(5 * time.Second)
		c.start(victim, keeping(time.Minute))
		c.await("the rest runs", 10*time.Second, c.balanced(98))
	})
}

// Leaders that die without a word hand on for how long items have waited for a member that stopped.
func TestAWaitForAMemberThatStoppedIsHandedOnByLeadersThatDie(t *testing.T) {
	// of the death, between two renewals
	for offset := time.Duration(0); offset < 3*time.Second; offset += 700 * time.Millisecond {
		t.Run(offset.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				const keep, deaths = 90 * time.Second, 2
				c.addWork(c.items(30)...)
				for i := range 5 {
					c.start(fmt.Sprintf("n%d", i), keeping(keep))
				}
				c.await("shared out", 40*time.Second, c.balanced(30))
				victim := c.follower()
				its := c.itemsOf(victim)
				cfg := c.members[victim].c.Settings()
				leaderless := cfg.Bounds().TakeOverLead.Total() - cfg.TTL
				c.stop(victim)
				begin := time.Now()
				time.Sleep(30*time.Second + offset)
				leads := c.leader()
				for range deaths {
					c.kill(leads)
					leads = c.awaitTerm(leaderless, leads)
					time.Sleep(8 * time.Second)
				}
				bound := keep + deaths*(leaderless+cfg.TTL/4) + 3*time.Second
				c.await("its items elsewhere", bound-time.Since(begin), c.runs(its))
				took := time.Since(begin)
				t.Logf("taken over after %v, the bound is %v", took, bound)
				if took < keep {
					t.Errorf("taken over after %v: it had asked for %v, and %d leaders died", took,
						keep, deaths)
				}
			})
		})
	}
}
