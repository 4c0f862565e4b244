package actors_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// Of members that are there after all the leader hears from its look at the records, which may come
// late. Until it has heard of them it asks about each twice a second, however often it is woken: it
// asked about all of them whenever anything was written.
func TestAboutMembersThatAreThereAfterAllTheLeaderAsksSeldom(t *testing.T) {
	const others, lasts = 9, 10 * time.Second
	run(t, func(c *cluster) {
		var late atomic.Bool
		var asked atomic.Int32
		records, acks := holding("GET", "/members/?", "index="),
			holding(`"get-or-empty","Key":"service/demo/acks/n`)
		c.way = transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
			if acks(r) && late.Load() {
				asked.Add(1)
			}
			return records(r) && late.Load()
		}, transport.Hang)
		c.addWork(c.items(20)...)
		c.start("n1")
		c.await("all of it runs", 30*time.Second, c.balanced(20))
		late.Store(true)
		c.start("n2")
		time.Sleep(time.Second) // the poll that is under way hears of it
		for i := range others {
			c.start(fmt.Sprintf("n%d", i+3))
		}
		time.Sleep(5 * time.Second)
		asked.Store(0)
		for n := range int(lasts / (50 * time.Millisecond)) {
			c.addWork(fmt.Sprintf("other-%d", n))
			time.Sleep(50 * time.Millisecond)
		}
		n := asked.Load()
		t.Logf("asked %d times", n)
		if most := int32(others * (2*lasts/time.Second + 2)); n > most {
			t.Errorf("the leader asked %d times about %d members in %v, want %d at the most", n,
				others, lasts, most)
		} else if n == 0 {
			t.Error("it asked about none of them, so nothing was tried")
		}
		late.Store(false)
		c.await("all take part", time.Minute, func() bool { return c.loads()["n11"] > 10 })
	})
}

// A record that no session holds says nothing of its member: whose items wait for that one wait no
// longer for it.
func TestARecordThatNoSessionHoldsProlongsNoGrace(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 30)
		lost := c.follower()
		bound := c.members[lost].c.Settings().Bounds().TakeOver
		c.kill(lost)
		began := time.Now()
		time.Sleep(bound * 2 / 3) // its grace is running
		c.must(c.store.Put(c.t.Context(), c.store.Keys().Member(lost), []byte("alive"), 0))
		c.await("its items elsewhere", 2*time.Minute, c.balanced(30))
		if took := time.Since(began); took > bound {
			c.t.Errorf("taken over after %v, want %v at the most", took, bound)
		}
	})
}
