package actors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/keys"
)

// A grace is waited for once, whatever else goes on meanwhile.

// churn adds n items to the workload and replaces each of them every 5 s.
func (c *cluster) churn(n int) (stop func()) {
	name := func(i int, k int64) string { return fmt.Sprintf("churn-%02d-%d", i, k) }
	for i := range n {
		c.addWork(name(i, 0))
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for k := int64(1); ; k++ {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Second):
			}
			for i := range n {
				if err := keys.Put(c.t.Context(), c.store, c.store.Keys().WorkItem(name(i, k)), nil,
					0); err != nil {
					c.t.Error(err)
				}
				if err := keys.Delete(c.t.Context(), c.store,
					c.store.Keys().WorkItem(name(i, k-1))); err != nil {
					c.t.Error(err)
				}
			}
		}
	}()
	return func() { close(end); <-done }
}

// itemsOf are the items that a member works on.
func (c *cluster) itemsOf(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var items []string
	for item, at := range c.judge.Working {
		if at == id {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

// runs tells whether all items are worked on.
func (c *cluster) runs(items []string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, item := range items {
			if _, ok := c.judge.Working[item]; !ok {
				return false
			}
		}
		return true
	}
}

func TestAGraceIsNotProlongedByAWorkloadThatChanges(t *testing.T) {
	run(t, func(c *cluster) {
		members := 60
		if raceDetector {
			members = 24
		}
		for i := range members {
			c.start(fmt.Sprintf("n%02d", i))
		}
		lasting := c.items(2 * members)
		c.addWork(lasting...)
		c.await("shared out", time.Minute, c.balanced(2*members))
		stop := c.churn(members)
		defer stop()
		time.Sleep(20 * time.Second)
		victim := c.follower()
		var its []string
		for _, item := range c.itemsOf(victim) {
			if slices.Contains(lasting, item) {
				its = append(its, item)
			}
		}
		if len(its) == 0 {
			t.Fatalf("%s has none of the items that stay", victim)
		}
		bound := c.members[c.leader()].c.Settings().Bounds().TakeOver.Total()
		c.kill(victim)
		took := c.await("its items elsewhere", bound, c.runs(its))
		t.Logf("taken over after %v, the bound is %v", took, bound)
	})
}

// heldBy tells whether an item's key is at a member.
func (c *cluster) heldBy(member, item string) bool {
	_, found, _, err := c.store.Get(c.t.Context(), c.store.Keys().Assignment(member, item),
		store.Consistent)
	if err != nil {
		c.t.Error(err)
	}
	return found
}

// killForGood kills a member whose guard speaks for it.
func (c *cluster) killForGood(id string) {
	l := protocol.Leaving{Member: id, Session: c.members[id].c.Session().Get().ID, Clear: true}
	c.kill(id)
	if _, err := c.store.Depart(c.t.Context(), l); err != nil {
		c.t.Fatal(err)
	}
}

// Leaders that come and go, in an orderly way or killed with a guard that speaks for them, each
// hand on how long a vanished member has been waited for. The bound holds for leaders that live for
// a second too, as those that run out of memory.
func TestAGraceIsNotProlongedByLeadersThatComeAndGo(t *testing.T) {
	for name, x := range map[string]struct {
		lives time.Duration
		goes  func(c *cluster, id string)
	}{
		"resigned": {3500 * time.Millisecond, (*cluster).stop},
		"drained": {3500 * time.Millisecond, func(c *cluster, id string) {
			op, err := operator.New(c.client, "demo")
			if err == nil {
				err = op.Drain(c.t.Context(), id)
			}
			if err != nil {
				c.t.Fatal(err)
			}
			c.await("it leads no more", 2*time.Second, func() bool { return c.leader() != id })
		}},
		"killed":             {3500 * time.Millisecond, (*cluster).killForGood},
		"killed after 1.5 s": {1500 * time.Millisecond, (*cluster).killForGood},
		"killed after 1 s":   {time.Second, (*cluster).killForGood},
		"resigned after 1 s": {time.Second, (*cluster).stop},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				several(c, 5, 30)
				time.Sleep(10 * time.Second)
				victim := c.follower()
				its := c.itemsOf(victim)
				cfg := c.members[victim].c.Settings()
				bound := cfg.Bounds().TakeOver.Total()
				if strings.HasPrefix(name, "killed") {
					// What a leader has waited since its last note is lost with it: a fifth of its
					// time. So is what a take of the leadership takes.
					bound += cfg.Lease / 4
				}
				c.kill(victim)
				begin := time.Now()
				leadersComeAndGo(c, its, begin, bound, x.lives, x.goes)
			})
		})
	}
}

// leadersComeAndGo has one more leader go after each period, with a new member in its place, until
// the items run elsewhere. That has to be within the bound.
func leadersComeAndGo(c *cluster, its []string, begin time.Time, bound, period time.Duration,
	goes func(c *cluster, id string)) {
	c.t.Helper()
	for i := 10; !c.runs(its)(); i++ {
		testkit.Virtual(period-1, 100*time.Millisecond, c.runs(its))
		if took := time.Since(begin); took > bound {
			c.t.Fatalf("not within %v: the items elsewhere", bound)
		}
		if !c.runs(its)() {
			c.start(fmt.Sprintf("n%d", i))
			goes(c, c.leader())
			c.awaitTerm(2*time.Second, "")
		}
	}
	c.t.Logf("taken over after %v, the bound is %v", time.Since(begin), bound)
}

// A member that is started again under its id on another host keeps its items, and waits for a
// lease that its predecessor may have. It may come as late as its items would have moved.
func TestAMemberThatIsStartedAgainElsewhereHasItsItemsWithinItsBound(t *testing.T) {
	longest, bound := time.Duration(0), time.Duration(0)
	for after := 14 * time.Second; after < 32*time.Second; after += time.Second {
		run(t, func(c *cluster) {
			three(c, 30)
			victim := c.follower()
			its, cfg := c.itemsOf(victim), c.members[victim].c.Settings()
			bound = cfg.Bounds().TakeOver.Total()
			begin := time.Now()
			c.kill(victim)
			time.Sleep(after)
			if c.runs(its)() {
				return
			}
			c.start(victim)
			c.await("its items", cfg.Bounds().TakeOverElsewhere.Total()-after, c.runs(its))
			longest = max(longest, time.Since(begin))
		})
	}
	if longest <= bound {
		t.Errorf("they run again after %v at the most: the guarantees say more", longest)
	}
}

// What a member has inherited, and may not touch yet, it cannot hand over: a predecessor may be at
// it.
func TestItemsThatWaitForALeaseAreHandedOverWhenItIsOver(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		its, cfg := c.itemsOf(victim), c.members[victim].c.Settings()
		c.kill(victim)
		again := c.start(victim).c.Membership()
		c.await("its return", 30*time.Second, func() bool {
			return again.Get().Phase == facts.Registered
		})
		const waited = 2 * time.Second
		time.Sleep(waited)
		c.stop(victim)
		bound := cfg.Bounds().TakeOver.Total() - cfg.Bounds().Detect.Total() - waited
		took := c.await("its items elsewhere", bound, c.runs(its))
		if took < cfg.Lease-waited-time.Second/10 {
			t.Errorf("its items run elsewhere after %v, inside of a lease of its predecessor", took)
		}
	})
}

// A quarter of an hour after the last deletion below a prefix Consul forgets it, and the prefix's
// index goes back. That is no Consul that lost writes: nothing is read anew, and a grace that runs
// goes on.
func TestAGraceIsNotProlongedByDeletionsThatConsulForgets(t *testing.T) {
	step := 5 * time.Second
	if raceDetector {
		step *= 4 // still shorter than a grace: one of them runs while Consul forgets
	}
	for after := 15*time.Minute + 5*time.Second; after < 17*time.Minute+
		5*time.Second; after += step {
		t.Run(after.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				several(c, 4, 10)
				c.stop(c.follower())
				time.Sleep(after)
				leader := c.members[c.leader()]
				plan := leader.c.Distribution().Get()
				its, victim := c.itemsOf(c.follower()), c.follower()
				c.kill(victim)
				c.await("its items elsewhere", leader.c.Settings().Bounds().TakeOver.Total(),
					c.runs(its))
				time.Sleep(2 * time.Minute)
				if now := leader.c.Distribution().Get(); now.Term != plan.Term || now.Epoch != plan.Epoch {
					t.Errorf("epoch %d of term %d, was %d of %d", now.Epoch, now.Term, plan.Epoch,
						plan.Term)
				}
			})
		})
	}
}

// The brake for vanished members lets go by itself, also when leaders come and go meanwhile.
func TestABrakeIsNotProlongedByLeadersThatComeAndGo(t *testing.T) {
	for lives, goes := range map[time.Duration]func(*cluster, string){
		30 * time.Second: (*cluster).stop, 1500 * time.Millisecond: (*cluster).killForGood} {
		run(t, func(c *cluster) {
			several(c, 8, 40)
			time.Sleep(10 * time.Second)
			cfg := c.members["n0"].c.Settings()
			bound := cfg.Bounds().TakeOver.Total() + cfg.BrakeHold*5/4
			var its []string
			for range 5 {
				victim := c.follower()
				its = append(its, c.itemsOf(victim)...)
				c.kill(victim)
			}
			leadersComeAndGo(c, its, time.Now(), bound, lives, goes)
		})
	}
}

// Items that a member keeps while it is away move when their time is over, whoever leads.
func TestItemsAreKeptForNoLongerThoughLeadersComeAndGo(t *testing.T) {
	const kept = 20 * time.Second
	run(t, func(c *cluster) {
		several(c, 5, 30)
		time.Sleep(10 * time.Second)
		victim := c.start("kept", func(cfg *actors.Config) { cfg.KeepItems = kept }).id
		c.await("its share", 20*time.Second, c.balanced(30))
		its, begin := c.itemsOf(victim), time.Now()
		c.stop(victim)
		leadersComeAndGo(c, its, begin, kept*5/4+5*time.Second, 1500*time.Millisecond,
			(*cluster).killForGood)
		if took := time.Since(begin); took < kept {
			t.Errorf("they run elsewhere after %v, and were to be kept for %v", took, kept)
		}
	})
}

// A member that is stopped while it waits for a predecessor's lease, as by a rollout, hands on how
// much of that is left.
func TestItemsThatWaitForALeaseDoNotBeginToWaitAnewWithEachRestart(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		its, cfg := c.itemsOf(victim), c.members[victim].c.Settings()
		bound := cfg.Bounds().TakeOver.Total() + cfg.TTL
		begin := time.Now()
		c.kill(victim)
		for !c.runs(its)() {
			again := c.start(victim).c.Membership()
			c.await("its return", 30*time.Second, func() bool {
				return again.Get().Phase == facts.Registered
			})
			testkit.Virtual(4*time.Second, 50*time.Millisecond, c.runs(its))
			if took := time.Since(begin); took > bound {
				t.Fatalf("not within %v: its items", bound)
			}
			if !c.runs(its)() {
				c.stop(victim)
			}
		}
		t.Logf("they run again after %v, the bound is %v", time.Since(begin), bound)
	})
}
