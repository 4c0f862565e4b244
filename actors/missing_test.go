package actors_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// Items that are gone from the workload while the brake keeps their keys.

func TestItemsThatAreGoneFromTheWorkloadKeepNoOthersFromStarting(t *testing.T) {
	run(t, func(c *cluster) {
		const gone, rest = 70, 30
		items := c.items(gone + rest)
		c.addWork(items...)
		c.start("n1", keeping(time.Minute))
		c.await("all of it runs", 20*time.Second, c.balanced(len(items)))
		c.stop("n1")
		c.removeWork(items[:gone]...)
		c.start("n1", keeping(time.Minute))
		c.await("the others run", 20*time.Second, c.runs(items[gone:]))
		time.Sleep(20 * time.Second)
		c.members["n1"].net.Requests()
		time.Sleep(20 * time.Second)
		if n := c.members["n1"].net.Requests()["PUT /v1/txn"]; n > 25 {
			t.Errorf("%d transactions in 20 s for items that are gone", n)
		}
		if n := sum(c.loads()); n != rest {
			t.Errorf("%d items run, want %d: the brake keeps the keys, and nothing is to be done "+
				"for them",
				n, rest)
		}
		c.addWork(items[:gone]...)
		c.await("those that are back", 10*time.Second, c.runs(items))
		if n := c.totalStarts(); n != len(items)+rest+gone {
			t.Errorf("%d starts", n)
		}
	})
}

func TestAnItemThatCanNeverBeReadKeepsNoOthersFromStarting(t *testing.T) {
	run(t, func(c *cluster) {
		c.way = transport.When(c.consul.RoundTripper(), transport.TxnWith("workload/poison"),
			transport.Always(http.StatusForbidden, "Permission denied"))
		items := c.items(100)
		c.addWork(append(items, "a-poison", "poison", "z-poison")...)
		c.start("n1")
		c.await("the others run", time.Minute, c.runs(append(items, "a-poison", "z-poison")))
		time.Sleep(time.Minute)
		c.addWork("late")
		c.await("a later one", 10*time.Second, c.runs([]string{"late"}))
	})
}
