package actors_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
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

func TestADeletedLeaderKeyMakesANewTermAndMovesNothing(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.delete("leader")
		c.await("a leader", 10*time.Second, func() bool { return c.leader() != "" })
		c.addWork("late")
		c.await("the new item", 20*time.Second, c.balanced(31))
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
				c.members[leader].c.Membership().Get().Phase == messages.Registered
		})
	})
}

func TestADeletedMemberRecordIsWrittenAgainAndNothingIsTakenOver(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.delete("members/" + victim)
		time.Sleep(time.Minute)
		if !c.balanced(30)() || c.loads()[victim] != 10 {
			t.Errorf("loads %v", c.loads())
		}
		if n := c.totalStarts(); n > 40 {
			t.Errorf(
				"%d starts: want 30, and at most 10 again at the member whose record was deleted",
				n)
		}
		if m := c.members[victim].c.Membership().Get(); m.Phase != messages.Registered {
			t.Errorf("membership %+v", m)
		}
	})
}

func TestAnOverwrittenMemberRecordIsWrittenAgain(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.put("members/"+victim, "{garbage")
		time.Sleep(time.Minute)
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Member(victim), 0)
		if err != nil || !bytes.Contains(e.Value, []byte(`"alive"`)) {
			t.Errorf("the record reads %s, %v", e.Value, err)
		}
		if n := c.totalStarts(); n != 30 || !c.balanced(30)() {
			t.Errorf("%d starts, loads %v", n, c.loads())
		}
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

func TestAnAssignmentThatAStrangerOverwroteIsTakenBackAndGrantedAnew(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.mu.Lock()
		at := c.judge.Working["device_group_0007"]
		c.mu.Unlock()
		c.put("assignments/"+at+"/device_group_0007", "no such order")
		time.Sleep(30 * time.Second)
		if n := c.totalStarts(); n > 31 || !c.balanced(30)() {
			t.Errorf("%d starts, loads %v", n, c.loads())
		}
		e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Assignment(at,
			"device_group_0007"), 0)
		if err == nil && bytes.Contains(e.Value, []byte("no such order")) {
			t.Error("the key still holds what the stranger wrote")
		}
	})
}

func TestAnAssignmentThatAStrangerDeletedIsGrantedAnew(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.mu.Lock()
		at := c.judge.Working["device_group_0007"]
		c.mu.Unlock()
		c.delete("assignments/" + at + "/device_group_0007")
		c.await("stopped", 5*time.Second, func() bool { return sum(c.loads()) == 29 })
		c.await("granted again", 10*time.Second, c.balanced(30))
	})
}

func TestAStrangersUnlockedRecordKeepsNobodysItems(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.kill(victim)
		c.await("the record gone with its session", 40*time.Second, func() bool {
			_, found, _, _ := c.store.Get(c.t.Context(), c.store.Keys().Member(victim), 0)
			return !found
		})
		c.put("members/"+victim, "alive")
		c.await("its items elsewhere", 40*time.Second, c.balanced(30))
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

func TestFreezeDrainAndPins(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		victim := c.follower()
		c.put("control/drain/"+victim, "")
		c.await("drained", 10*time.Second, func() bool {
			l := c.loads()
			return l[victim] == 0 && sum(l) == 30
		})
		c.delete("control/drain/" + victim)
		c.await("back in balance", 20*time.Second, c.balanced(30))
		pinned := c.items(1)[0]
		c.put("control/pins/"+pinned, victim)
		c.await("pinned", 20*time.Second, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.judge.Working[pinned] == victim
		})
		c.await("in balance", 20*time.Second, c.balanced(30))
		c.put("control/freeze", "")
		time.Sleep(time.Second)
		c.addWork("later")
		time.Sleep(time.Minute)
		if sum(c.loads()) != 30 {
			t.Error("frozen, and it was assigned")
		}
		c.delete("control/freeze")
		c.await("thawed", 10*time.Second, c.balanced(31))
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
		if p := c.members["n1"].c.Plan().Get(); p.Unplaced != 6 || p.Free != 6 {
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
		clear(c.judge.Granted) // a Consul that forgets what it had promised may hand out lower ones
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

// The keys that the leaders write for one another are overwritten by a stranger, time and again.
func TestAStrangeTermOrLeaderStateStopsNothingAndStartsNothingEarly(t *testing.T) {
	for _, value := range []string{"", "n1", "{",
		`{"ttl":9223372036854775807,"clear":true,"resigned":true}`, `{"ttl":-1}`,
		`{"absent":{"n1":{"ack":7,"sid":"x","for":9223372036854775807}},"brake":"\u001b]52"}`} {
		t.Run(value, func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 30)
				time.Sleep(10 * time.Second)
				old := c.leader()
				bound := c.members[old].c.Settings().Bounds()
				c.put("term", value)
				c.put("leader_state", value)
				c.blind(old)
				time.Sleep(3 * time.Second)
				c.put("leader_state", value)
				c.put("term", value)
				if leads, _ := c.awaitLead(bound.TakeOverLead, old); leads == "" {
					t.Error("nobody leads")
				}
				c.await("the items taken over", bound.TakeOver, func() bool {
					n := 0
					for id, load := range c.loads() {
						if id != old {
							n += load
						}
					}
					return n == 30
				})
				o := c.operator()
				if s, err := o.Status(c.t.Context()); err != nil || s.Brake != "" {
					t.Errorf("the status says of the brake: %q, %v", s.Brake, err)
				}
				next := c.awaitTerm(time.Second, old)
				c.put("term", value)
				c.stop(next) // a resignation with a term that says nothing
				c.awaitLead(15*time.Second, old)
			})
		})
	}
}

func TestItemsThatAreCalledAsActorsRunAndStopNoOther(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		c.addWork(everyActor...)
		n := 30 + len(everyActor)
		c.await("the items", 10*time.Second, c.balanced(n))
		c.addWork("late_1", "late_2", "late_3", "late_4", "late_5")
		c.await("those after them", 10*time.Second, c.balanced(n+5))
		c.removeWork(everyActor...)
		c.await("their end", 10*time.Second, func() bool {
			total := 0
			for _, load := range c.loads() {
				total += load
			}
			return total == 35
		})
	})
}
