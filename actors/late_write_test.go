package actors_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// delayer keeps one transaction back and its sender sees the connection break; it
// arrives when it is let go, after newer ones.
type delayer struct {
	to    http.RoundTripper
	match func(body string) bool

	mu   sync.Mutex
	held []*http.Request
}

func (d *delayer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := transport.Txn(r)
	d.mu.Lock()
	hold := body != "" && d.match != nil && d.match(body)
	if hold {
		d.match = nil
		d.held = append(d.held, transport.Copy(r))
	}
	d.mu.Unlock()
	if hold {
		return nil, transport.ErrReset
	}
	return d.to.RoundTrip(r)
}

// deliver lets what was held arrive now, and returns the status codes.
func (d *delayer) deliver() (codes []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.held {
		codes = append(codes, transport.Again(d.to, r))
	}
	d.held = nil
	return codes
}

func TestAWriteThatArrivesLateIsRefused(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(30)...)
		m := c.start("n1")
		d := &delayer{to: c.consul.RoundTripper()}
		m.net.Via(d)
		c.await("all at n1", 10*time.Second, c.balanced(30))
		d.mu.Lock()
		d.match = func(body string) bool {
			return strings.Contains(body, "check-index") && strings.Contains(body, "late")
		}
		d.mu.Unlock()
		c.addWork("late")
		c.await("late granted all the same", 20*time.Second, c.balanced(31))
		c.start("n2")
		c.await("in balance", 20*time.Second, c.balanced(31))
		if codes := d.deliver(); len(codes) != 1 || codes[0] != http.StatusConflict {
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
