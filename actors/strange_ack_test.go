package actors_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Its sentinel says whether a lost member was back, whatever a stranger does to its ack: the items
// wait as long for it as without that.
func TestAGraceIsNotProlongedByAnAckThatAStrangerWrites(t *testing.T) {
	for name, write := range map[string]func(c *cluster, lost string){
		"once more": func(c *cluster, lost string) {
			c.changeAck(lost, func(*protocol.Ack) {})
		},
		"with a week": func(c *cluster, lost string) { c.changeAck(lost, aWeek) },
		"unreadable": func(c *cluster, lost string) {
			c.put("acks/"+lost, time.Now().String())
		},
		"deleted": func(c *cluster, lost string) { c.delete("acks/" + lost) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 30)
				lost := c.follower()
				its, bound := c.itemsOf(lost), c.members[lost].c.Settings().Bounds().TakeOver
				c.kill(lost)
				began := time.Now()
				for !c.runs(its)() && time.Since(began) < bound {
					time.Sleep(3 * time.Second) // of a grace of 10 s
					if n := time.Since(began); n < bound-2*time.Second && (name == "deleted" ||
						n > 6*time.Second) && !c.runs(its)() {
						write(c, lost)
					}
				}
				c.await("its items elsewhere", max(bound-time.Since(began), 0), c.runs(its))
			})
		})
	}
}

// A stranger's ack was there before the member was known to be gone: what it says is waited for
// until somebody puts the right one back, and no longer.
func TestAnAckThatIsPutRightEndsAGraceOfAWeek(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		lost := c.follower()
		its, bound := c.itemsOf(lost), c.members[lost].c.Settings().Bounds().TakeOver
		c.kill(lost)
		right := c.changeAck(lost, aWeek)
		time.Sleep(bound)
		if c.runs(its)() {
			t.Fatal("its items did not wait for a week: the test shows nothing")
		}
		c.must(c.store.Put(c.t.Context(), c.store.Keys().Ack(lost), right.Encode(), 0))
		c.await("its items elsewhere", 2*time.Second, c.runs(its))
	})
}

func aWeek(ack *protocol.Ack) { ack.TTL, ack.Keep = 24*time.Hour, protocol.MaxKeep }

// changeAck has a stranger write a member's ack anew, changed. It returns what was there.
func (c *cluster) changeAck(member string, change func(*protocol.Ack)) (was protocol.Ack) {
	c.t.Helper()
	key := c.store.Keys().Ack(member)
	e, _, _, err := c.store.Get(c.t.Context(), key, store.Consistent)
	c.must(err)
	was, err = protocol.ParseAck(e.Value)
	c.must(err)
	is := was
	is.Counter++
	change(&is)
	c.must(c.store.Put(c.t.Context(), key, is.Encode(), 0))
	return was
}
