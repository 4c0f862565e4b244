package actors_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// large is how many payloads of 380 KiB go over a thin line, and scale by how much fewer they are
// under the race detector, to which each byte is dear. `make failures` plays the whole without it.
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
		if err := c.store.Put(c.t.Context(), key, value, 0); err != nil {
			c.t.Fatal(err)
		}
	}
}

// thinLine carries so many bytes of answers a second.
type thinLine struct {
	to   http.RoundTripper
	pace int
}

func (l *thinLine) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.to.RoundTrip(r)
	if err == nil {
		resp.Body = &thinBody{resp.Body, l, r}
	}
	return resp, err
}

type thinBody struct {
	io.ReadCloser
	line *thinLine
	r    *http.Request
}

func (b *thinBody) Read(p []byte) (int, error) {
	if err := b.r.Context().Err(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), 64<<10)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(b.line.pace))
	return n, err
}

func TestLargePayloadsStartOverAThinLine(t *testing.T) {
	run(t, func(c *cluster) {
		c.addLarge()
		c.way = &thinLine{c.consul.RoundTripper(), 80_000_000 / 8 / scale}
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
		c.way = &thinLine{c.consul.RoundTripper(), 200 << 10}
		c.addWork(c.items(3)...)
		c.start("n1", func(cfg *actors.Config) { cfg.Lease = 2 * time.Second })
		c.await("the small ones run", 30*time.Second, func() bool { return c.loads()["n1"] == 3 })
		key := c.store.Keys().WorkItem("large")
		if err := c.store.Put(c.t.Context(), key, bytes.Repeat([]byte{'x'}, 380<<10),
			0); err != nil {
			t.Fatal(err)
		}
		c.await("all of it runs", 30*time.Second, func() bool { return c.loads()["n1"] == 4 })
		if n := c.totalStarts(); n != 4 {
			t.Errorf("%d starts of 4 items", n)
		}
	})
}
