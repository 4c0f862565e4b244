package actors_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// watchesSlowly has each answer to a long poll come as late as is returned.
func (c *cluster) watchesSlowly() (late *atomic.Int64) {
	late, to := &atomic.Int64{}, c.consul.RoundTripper()
	c.way = transport.When(to, transport.Poll, func(r *http.Request) (*http.Response, error) {
		resp, err := to.RoundTrip(r)
		if gone := transport.Wait(r, time.Duration(late.Load())); gone != nil && err == nil {
			_ = resp.Body.Close()
			return nil, gone
		}
		return resp, err
	})
	return late
}

// A new leader that hears late of its own take, and of each epoch after it, is not one whose Consul
// has gone back: no grace begins anew for that.
func TestAGraceEndsHoweverSlowlyTheWatchesAnswer(t *testing.T) {
	for _, slow := range []time.Duration{1900, 2500, 4000, 10000} {
		run(t, func(c *cluster) {
			late := c.watchesSlowly()
			three(c, 9)
			slow *= time.Millisecond
			late.Store(int64(slow))
			time.Sleep(20 * time.Second)
			gone := c.leader()
			f := c.members[gone].c.Settings().Bounds()
			c.kill(gone)
			// of the leader's key, of the lost one's record, and of the assignments
			most := f.TakeOver.Total() + f.OfLeader.Total() + 3*slow
			took := c.await("all work elsewhere", 3*time.Minute, func() bool {
				return sum(c.loads()) == 9
			})
			if took > most {
				t.Errorf("watches take %v: after %v, want %v at the most", slow, took, most)
			}
			leader := c.members[c.leader()]
			time.Sleep(20 * time.Second)
			if l := leader.c.Leadership().Get(); l.Resets != 0 {
				t.Errorf("watches take %v: %+v", slow, l)
			}
			late.Store(0)
			time.Sleep(20 * time.Second)
		})
	}
}
