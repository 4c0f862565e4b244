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
		late := &transport.Recorder{To: transport.Fail(transport.ErrReset)}
		m.net.Via(transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
			return transport.TxnWith("check-index", "late")(r) && len(late.Copies()) == 0
		}, late.RoundTrip))
		c.await("all at n1", 10*time.Second, c.balanced(30))
		c.addWork("late")
		c.await("late granted all the same", 20*time.Second, c.balanced(31))
		c.start("n2")
		c.await("in balance", 20*time.Second, c.balanced(31))
		if code := transport.Again(c.consul.RoundTripper(),
			late.Copies()[0]); code != http.StatusConflict {
			t.Errorf("the late write was answered %d, want 409", code)
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
	return transport.When(to, func(r *http.Request) bool {
		if r.Method != http.MethodPut || strings.HasPrefix(r.URL.Path, "/v1/session/renew") {
			return false
		}
		at := n.Add(1)
		return at%2 == 0 && at/2 <= times
	}, transport.Lose(to))
}
