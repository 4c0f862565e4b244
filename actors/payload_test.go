package actors_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// large is how many payloads of 380 KiB go over a thin line, and scale by how much fewer they are
// under the race detector, to which each byte is dear. `make test` plays the whole without it.
var (
	scale = map[bool]int{true: 8, false: 1}[raceDetector]
	large = 64 / scale
)

// addLarge adds them to the workload.
func (c *cluster) addLarge() {
	c.t.Helper()
	value := bytes.Repeat([]byte{'x'}, 380<<10)
	for i := range large {
		key := c.store.Keys().WorkItem(fmt.Sprintf("large%02d", i))
		if err := keys.Put(c.t.Context(), c.store, key, value, 0); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestLargePayloadsStartOverAThinLine(t *testing.T) {
	run(t, func(c *cluster) {
		c.addLarge()
		c.way = &transport.Thin{To: c.consul.RoundTripper(), Pace: 80_000_000 / 8 / scale}
		c.start("n1")
		c.await("all of it runs", 90*time.Second, func() bool { return c.loads()["n1"] == large })
		if n := c.totalStarts(); n != large {
			t.Errorf("%d starts of %d items", n, large)
		}
	})
}

// A payload that takes longer than what is left of the lease is read on while the lease is renewed,
// also by a member that works on others.
func TestAPayloadStartsThatTakesLongerThanARenewal(t *testing.T) {
	run(t, func(c *cluster) {
		// two and a half seconds for the large one
		c.way = &transport.Thin{To: c.consul.RoundTripper(), Pace: 200 << 10}
		c.addWork(c.items(3)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Lease = 2 * time.Second })
		c.await("the small ones run", 30*time.Second, func() bool { return c.loads()["n1"] == 3 })
		key := c.store.Keys().WorkItem("large")
		if err := keys.Put(c.t.Context(), c.store, key, bytes.Repeat([]byte{'x'}, 380<<10),
			0); err != nil {
			t.Fatal(err)
		}
		c.await("all of it runs", 30*time.Second, func() bool { return c.loads()["n1"] == 4 })
		if n := c.totalStarts(); n != 4 {
			t.Errorf("%d starts of 4 items", n)
		}
	})
}
