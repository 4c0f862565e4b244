package actors_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// delayer keeps one transaction back and answers its sender with a time-out; it
// arrives when it is let go, after newer ones.
type delayer struct {
	to    http.RoundTripper
	match func(body string) bool

	mu   sync.Mutex
	held []*http.Request
}

func (d *delayer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.HasPrefix(r.URL.Path, "/v1/txn") {
		return d.to.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	hold := d.match != nil && d.match(string(body))
	if hold {
		d.match = nil
		later := r.Clone(r.Context())
		later.Body = io.NopCloser(bytes.NewReader(body))
		d.held = append(d.held, later)
	}
	d.mu.Unlock()
	if hold {
		return nil, errors.New("i/o timeout")
	}
	return d.to.RoundTrip(r)
}

// deliver lets what was held arrive now, and returns the status codes.
func (d *delayer) deliver(t *testing.T) (codes []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.held {
		resp, err := d.to.RoundTrip(r.Clone(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		codes = append(codes, resp.StatusCode)
	}
	d.held = nil
	return codes
}

func TestAWriteThatArrivesLateIsRefused(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(30)...)
		m := c.start("n1")
		d := &delayer{to: c.consul.RoundTripper()}
		m.net.via(d)
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
		if codes := d.deliver(c.t); len(codes) != 1 || codes[0] != http.StatusConflict {
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
		m.net.via(&loser{to: c.consul.RoundTripper(), next: 30})
		c.await("all at n1", 60*time.Second, c.balanced(9))
		c.start("n2")
		c.await("in balance", 60*time.Second, c.balanced(9))
		time.Sleep(time.Minute)
		if !c.balanced(9)() {
			t.Errorf("in the end %v", c.loads())
		}
	})
}

// loser loses the replies of every second transaction, next times.
type loser struct {
	to http.RoundTripper

	mu   sync.Mutex
	next int
	n    int
}

func (l *loser) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.to.RoundTrip(r)
	if err != nil || r.Method != http.MethodPut || strings.HasPrefix(r.URL.Path,
		"/v1/session/renew") {
		return resp, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if l.n%2 == 0 && l.next > 0 {
		l.next--
		resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, nil
}
