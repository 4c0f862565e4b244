package actors_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// One connection that breaks off tells nothing of the next: whichever request of a leader's stop it
// is, before or after it was carried out, the leadership, the items and the session are given up,
// and the items are kept that are to be.
func TestAMemberThatStopsHandsOverThoughAConnectionBreaksOff(t *testing.T) {
	for name, breaks := range map[string]func(http.RoundTripper) transport.Func{
		"before": func(http.RoundTripper) transport.Func { return transport.Fail(transport.ErrReset) },
		"after":  transport.Lose,
	} {
		for _, keep := range []time.Duration{0, time.Minute} {
			for nth := int64(1); ; nth++ {
				if !oneBreaksOff(t, fmt.Sprintf("request %d breaks off %s it was carried out, keeping %v",
					nth, name, keep), nth, breaks, keep) {
					break
				}
			}
		}
	}
}

// oneBreaksOff has the nth request of the leader's stop break off, and tells whether there was one.
func oneBreaksOff(t *testing.T, what string, nth int64,
	breaks func(http.RoundTripper) transport.Func, keep time.Duration) bool {
	n := atomic.Int64{}
	run(t, func(c *cluster) {
		var said testkit.Output
		c.log = slog.New(slog.NewTextHandler(&said, nil))
		c.checkTTL = actors.NoCheck
		three(c, 9, keeping(keep))
		time.Sleep(time.Second)
		leader, to := c.leader(), c.consul.RoundTripper()
		m := c.members[leader]
		m.net.Via(transport.When(to, func(r *http.Request) bool {
			return !transport.Poll(r) && n.Add(1) == nth
		}, breaks(to)))
		session, began := m.c.Session().Get().ID, time.Now()
		c.stop(leader)
		c.await("another Lead", time.Minute, func() bool { return c.leader() != "" })
		lead := time.Since(began)
		c.await("all work elsewhere", 2*time.Minute, c.balanced(9))
		if took, most := time.Since(began), keep+3*time.Second; lead > 2*time.Second ||
			took < keep || took > most {
			t.Errorf("%s: another Lead after %v, the items run after %v", what, lead, took)
		}
		if n := c.totalStarts(); n != 12 {
			t.Errorf("%s: %d starts of 9 items of which 3 had to move", what, n)
		}
		// what goes on as ever, such as the renewals, says that it tries again
		text := strings.ReplaceAll(said.String(), "WARN msg=consul-unreachable", "")
		if strings.Contains(text, "WARN") {
			t.Errorf("%s: it says\n%s", what, text)
		}
		if _, exists, err := c.store.SessionInfo(c.t.Context(), session); exists || err != nil {
			t.Errorf("%s: its session is left (%v, %v)", what, exists, err)
		}
	})
	return n.Load() >= nth && !t.Failed()
}
