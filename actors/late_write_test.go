package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestAWriteThatArrivesLateIsRefused(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(30)...)
		m := c.start("n1")
		d := &transport.Astray{To: c.consul.RoundTripper()}
		m.net.Via(d)
		c.await("all at n1", 10*time.Second, c.balanced(30))
		d.Hold(1, transport.TxnWith("check-index", "late"))
		c.addWork("late")
		c.await("late granted all the same", 20*time.Second, c.balanced(31))
		c.start("n2")
		c.await("in balance", 20*time.Second, c.balanced(31))
		if codes := d.Deliver(); len(codes) != 1 || codes[0] != http.StatusConflict {
			t.Errorf("the late write was answered %v, want one 409", codes)
		}
		time.Sleep(30 * time.Second)
		if !c.balanced(31)() {
			t.Errorf("in the end %v", c.loads())
		}
	})
}

// A write whose reply is lost has been applied: the leader must not do it twice,
// nor believe that it was not done.
func TestALostReplyOfACommittedWriteIsFoundOut(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(9)...)
		m := c.start("n1")
		m.net.Via(loser(c.consul.RoundTripper(), 30))
		c.await("all at n1", 60*time.Second, c.balanced(9))
		c.start("n2")
		c.await("in balance", 60*time.Second, c.balanced(9))
		time.Sleep(time.Minute)
		if !c.balanced(9)() {
			t.Errorf("in the end %v", c.loads())
		}
	})
}

// loser loses the replies of every second write, times of them.
func loser(to http.RoundTripper, times int64) http.RoundTripper {
	var n atomic.Int64
	return transport.Unheard(to, func(r *http.Request) bool {
		if r.Method != http.MethodPut || strings.HasPrefix(r.URL.Path, "/v1/session/renew") {
			return false
		}
		at := n.Add(1)
		return at%2 == 0 && at/2 <= times
	}, transport.Fail(transport.ErrReset))
}
