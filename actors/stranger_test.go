package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
)

// What strangers, operators and a bad network do to a cluster's keys and requests.

func TestATouchedLeaderKeyCostsAnEpochAndNothingElse(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		leader := c.members[c.leader()]
		before := leader.c.Leadership().Get()
		c.put("leader", "somebody else") // a plain PUT keeps the lock, and resets LockIndex
		time.Sleep(2 * time.Second)
		after := leader.c.Leadership().Get()
		if after.Term != before.Term || after.Epoch <= before.Epoch {
			t.Errorf("leadership before %+v, after %+v: want a new epoch of the same term", before,
				after)
		}
		c.addWork("late")
		c.await("the new item", 10*time.Second, c.balanced(31))
		if n := c.totalStarts(); n != 31 {
			t.Errorf("%d starts of 31 items", n)
		}
	})
}

func TestADestroyedSessionEndsTheLeadershipAndTheMemberComesBack(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		leader := c.leader()
		if _, err := c.client.Session().Destroy(c.members[leader].c.Session().Get().ID,
			nil); err != nil {
			t.Fatal(err)
		}
		c.await("everything again", 60*time.Second, func() bool {
			return c.leader() != "" && c.balanced(30)() &&
				c.members[leader].c.Membership().Get().Phase == facts.Registered
		})
	})
}

func TestStrangersKeysStallNothing(t *testing.T) {
	run(t, func(c *cluster) {
		for _, key := range []string{
			"members/x/y", "members/", "members/plain", "workload/a/b", "workload/",
			"assignments/odd", "assignments/", "assignments/nobody/",
			"assignments/n1/a/b", "acks/", "acks/n9", "acks/a/b", "control/whatever",
			"control/pins/", "control/drain/a/b", "unknown/key",
		} {
			c.put(key, "\x00 not for us {")
		}
		three(c, 30)
		c.stop(c.follower())
		c.await("its items elsewhere", 5*time.Second, c.balanced(30))
	})
}

func TestIDsThatAreEachOthersPrefixesDoNotMixUp(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("w", "w1", "w10", "w100", "v", "v1")
		for _, id := range []string{"m", "m1", "m10"} {
			c.start(id)
		}
		c.await("two each", 20*time.Second, c.balanced(6))
		c.stop("m1")
		c.await("three each", 5*time.Second, c.balanced(6))
		if c.loads()["m10"] != 3 || c.loads()["m"] != 3 {
			t.Errorf("loads %v", c.loads())
		}
	})
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

func TestAMemberWithoutWorkLeadsAndRunsNothing(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Work = nil })
		c.await("n1 leads", 10*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		c.await("all at n2", 20*time.Second, func() bool {
			l := c.loads()
			return l["n2"] == 10 && l["n1"] == 0
		})
	})
}

func TestCapacityIsAHardLimit(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Capacity = 4 })
		time.Sleep(20 * time.Second)
		if n := c.loads()["n1"]; n != 4 {
			t.Errorf("n1 runs %d items with room for 4", n)
		}
		if p := c.members["n1"].c.Distribution().Get(); p.Unplaced != 6 || p.Free != 6 {
			t.Errorf("the plan says %+v, want 6 unplaced", p)
		}
		c.start("n2")
		c.await("all placed", 20*time.Second, func() bool {
			l := c.loads()
			return l["n1"] <= 4 && sum(l) == 10
		})
	})
}

func TestAMemberGoesOnWithItsEarlierRegistrationAfterARestore(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		snapshot := c.consul.Snapshot()
		// It registers again, under the same session: the snapshot's record is older than what it
		// knows.
		c.delete("members/" + victim)
		c.await("its items again", 30*time.Second, c.balanced(30))
		if err := c.consul.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.mu.Lock()
		clear(c.judge.Tokens) // a Consul that forgets what it had promised may hand out lower ones
		c.mu.Unlock()
		c.removeWork(c.items(3)...)
		c.addWork("new-1", "new-2", "new-3", "new-4", "new-5", "new-6")
		// A poll that waits for an index that will not come again lasts for its whole minute.
		c.await("all of it runs", 100*time.Second, c.balanced(33))
		if c.loads()[victim] != 11 {
			t.Errorf("%s runs %d items", victim, c.loads()[victim])
		}
	})
}
