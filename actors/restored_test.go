package actors_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// What a restored Consul brings back, and nobody has seen to be gone.

// deafness loses the answers to one member's watch of its assignments.
func deafness(to http.RoundTripper, path string, on *atomic.Bool) http.RoundTripper {
	return transport.Unheard(to, func(r *http.Request) bool {
		return on.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path)
	}, transport.Fail(transport.ErrReset))
}

func TestAKeyThatARestoreBringsBackBeforeItsReleaseWasSeenIsReleasedAgain(t *testing.T) {
	run(t, func(c *cluster) {
		const slow = 2 * time.Second
		c.addWork(c.items(4)...)
		for _, id := range []string{"n1", "n2"} {
			c.start(id, stopsIn(slow))
		}
		c.await("shared out", 40*time.Second, c.balanced(4))
		from, to := c.follower(), c.leader()
		item := c.itemsOf(from)[0]
		var on atomic.Bool
		path := "/" + strings.TrimSuffix(c.store.Keys().AssignmentsOf(from), "/") + "/"
		c.members[from].net.Via(deafness(c.consul.RoundTripper(), path, &on))
		c.put("control/pins/"+item, to)
		time.Sleep(slow / 2) // the work is stopping
		snapshot := c.consul.Snapshot()
		on.Store(true)
		gone := func() bool {
			_, found, _, err := c.store.Get(c.t.Context(), c.store.Keys().Assignment(from, item), 0)
			return err == nil && !found
		}
		c.await("the release", 2*slow, gone)
		if err := c.consul.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		on.Store(false)
		c.mu.Lock()
		clear(c.judge.Granted) // a Consul that forgets what it had promised may hand out lower ones
		c.mu.Unlock()
		// A poll that waits for an index that will not come again lasts for its whole minute.
		c.await("the release of what is back", 100*time.Second, gone)
		c.await("all items", time.Minute, func() bool { return sum(c.loads()) == 4 })
		if at := c.owners()[item]; at != to {
			t.Errorf("%s runs at %q, pinned to %s", item, at, to)
		}
	})
}
