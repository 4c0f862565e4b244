package actors_test

import (
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// behind is a way on which the watch of the leader key hears of nothing more, once it has heard of
// as many changes as it may.
func behind(to http.RoundTripper, may *atomic.Int64) http.RoundTripper {
	return transport.Unheard(to, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/leader") && transport.Poll(r) && may.Add(-1) < 0
	}, transport.Hang)
}

// Consul raises the index of a key only when a lock changes something: its value or its flags. A
// leader whose watch is behind still sees the largest flags that there are, which a stranger wrote,
// when the key has those of its own last lock.
func TestANewEpochIsLargerThanTheOldOne(t *testing.T) {
	run(t, func(c *cluster) {
		lost := &transport.Astray{To: c.consul.RoundTripper()}
		var may atomic.Int64
		may.Store(math.MaxInt64)
		c.way = behind(lost, &may)
		m := c.start("n1")
		c.addWork(c.items(4)...)
		c.await("all work", 20*time.Second, c.balanced(4))
		time.Sleep(time.Second)
		epoch := func() uint64 { return m.c.Leadership().Get().Epoch }
		before := epoch()
		may.Store(1)
		if err := c.store.Put(c.t.Context(), c.store.Keys().Leader(), []byte("n1"),
			math.MaxUint64); err != nil {
			t.Fatal(err)
		}
		c.await("an epoch after the stranger's write", 2*time.Second, func() bool {
			return epoch() > before
		})
		before = epoch()
		lost.Lose(1, transport.TxnWith("assignments/n1/late"))
		c.addWork("late")
		time.Sleep(2 * time.Second)
		if n := lost.Lost(); n != 1 {
			t.Fatalf("%d answers were lost", n)
		}
		if after := epoch(); after <= before {
			t.Errorf("the epoch before the lost answer is %d, after it %d", before, after)
		}
	})
}
