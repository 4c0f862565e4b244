package actors_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A Consul server that has just begun to lead answers renewals from the past until it has replayed
// its log: 200 for a session that has ended since. Neither a member that was cut off nor one that
// hears of nothing takes that for its lease.
func TestARenewalAnsweredFromThePastBringsNoWorkBack(t *testing.T) {
	for name, end := range map[string]func(c *cluster, m *member){
		// The member is away until its items have moved. Then Consul restarts, and the member is
		// back.
		"a cut": func(c *cluster, m *member) {
			m.net.Cut(errors.New("connection refused"))
			time.Sleep(45 * time.Second)
		},
		// The member hears nothing of its session's end: an operator ends it while Consul is going
		// down.
		"an operator": func(c *cluster, m *member) {
			if _, err := c.client.Session().Destroy(m.c.Session().Get().ID, nil); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		for _, behind := range []time.Duration{200 * time.Millisecond, 8 * time.Second,
			25 * time.Second} {
			t.Run(name+"/"+behind.String(), func(t *testing.T) {
				run(t, func(c *cluster) {
					three(c, 9)
					m := c.members[c.follower()]
					past := c.consul.Snapshot()
					id := m.c.Session().Get().ID // it may open another before Consul is away
					ends := m.c.Session().Get().Lease.Start.Add(m.c.Session().Get().Lease.TTL)
					end(c, m)
					c.consul.ElectionStart()
					c.consul.ElectionEndBehind(past)
					m.net.Cut(nil)
					for begin := time.Now(); time.Since(begin) < behind; time.Sleep(
						50 * time.Millisecond) {
						if s := m.c.Session().Get(); s.ID == id && s.Holds(time.Now(), 0) &&
							time.Now().After(ends) {
							c.t.Errorf("%v after Consul's restart the lease holds, of a session "+
								"that has ended",
								time.Since(begin))
							break
						}
					}
					c.consul.ElectionEnd()
					c.await("all work", 60*time.Second, c.balanced(9))
				})
			})
		}
	}
}

// What a member has been handed may have been reaped since, and it may not have heard of it yet.
func TestWorkStartsOnlyWhileTheRecordIsThisSessions(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		m := c.start("n1", func(cfg *actors.Config) { cfg.WorkerSoak = 2 * time.Second })
		// a line of their own for long polls and questions about sessions
		eyes := transport.NewWire(c.consul.RoundTripper())
		m.net.Via(transport.When(c.consul.RoundTripper(), func(r *http.Request) bool {
			return transport.Poll(r) || strings.HasPrefix(r.URL.Path, "/v1/session/")
		}, eyes.RoundTrip))
		c.await("the order", 20*time.Second, func() bool {
			return m.c.Assignments().Get().Items.Len() == 4
		})
		if n := c.totalStarts(); n != 0 {
			t.Fatalf("%d items run, within the worker's soak", n)
		}
		eyes.Freeze() // no news of the session's end
		if _, err := c.client.Session().Destroy(m.c.Session().Get().ID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2100 * time.Millisecond)
		if s := m.c.Session().Get(); !s.Holds(time.Now(), 0) {
			t.Fatal("the lease is over: this shows nothing")
		}
		if n := c.totalStarts(); n != 0 {
			t.Errorf("%d items were started under a session that had ended", n)
		}
		eyes.Thaw()
		c.await("all work", 60*time.Second, c.balanced(4))
	})
}
