package actors_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestALeaderWhoseTokenDoesNotAllowTheEventLogLeadsWithoutIt(t *testing.T) {
	run(t, func(c *cluster) {
		var allowed atomic.Bool
		c.deniesEvents(&allowed)
		three(c, 9)
		lost := c.follower()
		c.kill(lost)
		c.await("the lost member's items", 45*time.Second, c.balanced(9))
		op := c.operator()
		kinds := func() (kinds []string) {
			events, err := op.Events(c.t.Context())
			if err != nil {
				c.t.Fatal(err)
			}
			for _, e := range events {
				kinds = append(kinds, e.Kind)
			}
			return kinds
		}
		if k := kinds(); len(k) > 0 {
			c.t.Errorf("there are events: %v", k)
		}
		// Once it is allowed, the log begins.
		time.Sleep(time.Minute)
		allowed.Store(true)
		c.start(lost)
		c.await("the items shared out", 60*time.Second, c.balanced(9))
		if k := kinds(); !slices.Contains(k, "leads") || !slices.Contains(k, "granted") {
			c.t.Errorf("there are no events: %v", k)
		}
	})
}

// deniesEvents has the token allow the event log only while allowed says so.
func (c *cluster) deniesEvents(allowed *atomic.Bool) {
	c.denied = true
	next := c.consul.RoundTripper()
	c.way = transport.Func(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if strings.Contains(string(body), "/events/") && !allowed.Load() {
				text := `{"Results":null,"Errors":[{"OpIndex":4,"What":"Permission denied: ` +
					`token lacks permission 'key:write'"}]}`
				return &http.Response{StatusCode: http.StatusConflict, Request: r,
					Header: http.Header{"Content-Type": {"application/json"}},
					Body:   io.NopCloser(strings.NewReader(text))}, nil
			}
		}
		return next.RoundTrip(r)
	})
}

// A policy may be narrowed while a leader leads. It goes on at once, without the log.
func TestALeaderWhoseTokenDoesNotAllowTheEventLogAnyMoreLeadsWithoutIt(t *testing.T) {
	run(t, func(c *cluster) {
		var allowed atomic.Bool
		allowed.Store(true)
		c.deniesEvents(&allowed)
		three(c, 9)
		allowed.Store(false)
		more := c.items(29)[9:]
		c.addWork(more...)
		c.await("the items that were added", 3*time.Second, c.balanced(29))
	})
}
