package actors_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// answers counts what was answered to reads of one prefix. A poll that found nothing new counts.
type answers struct {
	prefix string

	mu sync.Mutex
	n  int
}

func (a *answers) on(to http.RoundTripper) transport.Func {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := to.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, a.prefix) {
			a.mu.Lock()
			a.n++
			a.mu.Unlock()
		}
		return resp, err
	}
}

func (a *answers) take() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.n
	a.n = 0
	return n
}

// A workload may have 100,000 items. Its first leader reads it once, and no write of its own makes
// its watch read all of it again, in the middle of the first plan.
func TestTheFirstLeaderReadsTheWorkloadOnce(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(9)...)
		time.Sleep(time.Minute)
		reads := &answers{prefix: "/" + c.store.Keys().Workload()}
		c.way = reads.on(c.consul.RoundTripper())
		c.start("n1")
		c.await("shared out", time.Minute, c.balanced(9))
		if n := reads.take(); n != 1 {
			t.Errorf("the workload was read %d times for the first plan, want 1", n)
		}
	})
}

// Consul ends a long poll of a prefix that holds nothing at each write of a neighbour. So a
// workload that is empty, or becomes so, gets a sentinel.
func TestAnEmptyWorkloadIsLeftAloneByItsNeighbours(t *testing.T) {
	run(t, func(c *cluster) {
		reads := &answers{prefix: "/" + c.store.Keys().Workload()}
		c.way = reads.on(c.consul.RoundTripper())
		c.start("n1")
		neighbour := strings.TrimSuffix(c.store.Keys().Workload(), "/") + "-2"
		quiet := func(when string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			reads.take()
			for range 100 {
				if err := keys.Put(c.t.Context(), c.store, neighbour, []byte(time.Now().String()),
					0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if n := reads.take(); n > 1 {
				t.Errorf("%s: the workload was read %d times beside 100 writes of a neighbour",
					when, n)
			}
		}
		quiet("empty from the first")
		c.addWork(c.items(1)...)
		c.await("shared out", time.Minute, c.balanced(1))
		quiet("with an item")
		c.removeWork(c.items(1)...)
		quiet("emptied")
		if err := keys.Delete(c.t.Context(), c.store, c.store.Keys().Workload()); err != nil {
			t.Fatal(err)
		}
		quiet("a stranger has taken the sentinel")
	})
}
