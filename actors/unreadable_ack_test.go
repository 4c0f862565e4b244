package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
)

// What an ack says of its member's TTL is lost with it: the leader counts on what the ack has said
// before, or on the longest TTL that it knows of, and on what the member's sentinel says, which may
// be the only one left that does. The cluster of every test sees to it that no item
// is begun while the lost member, which hears of nothing, works on.
func TestAMembersLongerLeaseIsWaitedForThoughItsAckIsUnreadable(t *testing.T) {
	long := func(cfg *actors.Config) { cfg.TTL = 40 * time.Second }
	for name, spoil := range map[string]func(c *cluster){
		"truncated": func(c *cluster) { c.put("acks/long", "{") },
		"a number":  func(c *cluster) { c.put("acks/long", "7") },
		"no ttl": func(c *cluster) {
			c.put("acks/long", `{"n":7,"sid":"`+c.members["long"].c.Session().Get().ID+`"}`)
		},
		"deleted":                func(c *cluster) { c.delete("acks/long") },
		"truncated, new leader":  func(c *cluster) { c.put("acks/long", "{"); c.succeed() },
		"deleted, another leads": func(c *cluster) { c.delete("acks/long"); c.succeed() },
	} {
		for _, others := range []int{1, 0} {
			t.Run(fmt.Sprintf("%s, %d others", name, others), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.start("n1")
					c.awaitLead(10 * time.Second)
					c.start("n2")
					c.start("long", long)
					if others > 0 {
						c.start("long2", long)
					}
					c.addWork(c.items(8)...)
					c.await("all work", 30*time.Second, c.balanced(8))
					spoil(c)
					time.Sleep(time.Second)
					c.await("all work", 30*time.Second, c.balanced(8))
					ends := c.members["long"].c.Session().Get().Lease
					c.blind("long")
					time.Sleep(ends.Left(time.Now()))
					c.await("what long had elsewhere", 50*time.Second, func() bool {
						l := c.loads()
						return l["long"] == 0 && sum(l) == 8
					})
				})
			})
		}
	}
}

// succeed has the leader stop and start anew, and another one lead.
func (c *cluster) succeed() {
	c.t.Helper()
	old := c.leader()
	c.stop(old)
	c.awaitLead(20*time.Second, old)
	c.start(old)
	time.Sleep(20 * time.Second)
}

// A successor that knows nothing of the lease before its own waits for a TTL, and passes that on.
func TestAWaitForALeaseThatNothingNamesIsPassedOn(t *testing.T) {
	run(t, func(c *cluster) {
		short := func(cfg *actors.Config) { cfg.Lease = 3 * time.Second }
		three(c, 9)
		victim := c.follower()
		its := c.itemsOf(victim)
		c.delete("acks/" + victim)
		c.delete("assignments/" + victim + "/")
		time.Sleep(time.Second)
		first := c.members[victim]
		c.blind(victim)
		again := c.start(victim, short).c.Membership()
		c.await("its return", 30*time.Second, func() bool {
			return again.Get().Phase == messages.Registered
		})
		c.blind(victim)
		lease := first.c.Session().Get().Lease
		time.Sleep(lease.Left(time.Now())) // the cluster sees to it that nothing is begun meanwhile
		c.await("its items", 10*time.Second, c.runs(its))
		first.cancel()
		<-first.done
	})
}
