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
			key := c.store.Keys().Ack(lost)
			e, _, _, err := c.store.Get(c.t.Context(), key, store.Consistent)
			c.must(err)
			ack, err := protocol.ParseAck(e.Value)
			c.must(err)
			ack.Counter++
			c.must(c.store.Put(c.t.Context(), key, ack.Encode(), 0))
		},
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
