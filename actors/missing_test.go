package actors_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// Items that are gone from the workload while the brake keeps their keys.

func TestOneItemThatIsGoneFromTheWorkloadStartsWhenItIsBack(t *testing.T) {
	run(t, func(c *cluster) {
		items := c.items(4)
		c.addWork(items...)
		c.start("n1", keeping(time.Minute))
		c.await("all of it runs", 20*time.Second, c.balanced(len(items)))
		c.put("control/freeze", "") // as the brake: the leader takes no key back
		c.await("the order to be heard", 5*time.Second, func() bool {
			return c.members["n1"].c.Control().Get().Freeze
		})
		c.stop("n1")
		c.removeWork(items[0])
		c.start("n1", keeping(time.Minute))
		c.await("the others run", 20*time.Second, c.runs(items[1:]))
		time.Sleep(20 * time.Second)
		c.addWork(items[0])
		c.await("the one that is back", 2*time.Second, c.runs(items))
	})
}

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

// reader refuses every transaction that reads an item.
func reader(to http.RoundTripper, item string, how refusal) http.RoundTripper {
	return transport.When(to, transport.TxnWith("workload/"+item),
		transport.Always(how.status, how.body))
}

type refusal struct {
	status int
	body   string
}

func TestAnItemThatCanNeverBeReadKeepsNoOthersFromStarting(t *testing.T) {
	for _, how := range []refusal{{400, "blocked by policy"}, {403, "Permission denied"}} {
		t.Run(how.body, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.way = reader(c.consul.RoundTripper(), "poison", how)
				items := c.items(100)
				c.addWork(append(items, "a-poison", "poison", "z-poison")...)
				c.start("n1")
				c.await("the others run", time.Minute, c.runs(append(items, "a-poison",
					"z-poison")))
				time.Sleep(time.Minute)
				c.addWork("late")
				c.await("a later one", 10*time.Second, c.runs([]string{"late"}))
			})
		})
	}
}

// Nor do many of them, wherever they stand in the order of the ids, nor one that comes later.
func TestItemsThatCanNeverBeReadKeepNoOthersFromStarting(t *testing.T) {
	for _, how := range []refusal{{400, "blocked by policy"}, {403, "Permission denied"},
		{500, "out of order"}} {
		for _, many := range []int{2, 3, 50} {
			t.Run(fmt.Sprintf("%d %s", many, how.body), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.way = reader(c.consul.RoundTripper(), "a-poison", how)
					items := c.items(100)
					c.addWork(items...)
					for i := range many {
						c.addWork(fmt.Sprintf("a-poison_%04d", i))
					}
					c.start("n1")
					c.await("the others run", time.Duration(many)*250*time.Millisecond+
						10*time.Second, c.runs(items))
					time.Sleep(time.Minute)
					c.addWork("late")
					c.await("a later one", 3*time.Second, c.runs([]string{"late"}))
					c.removeWork("late")
					c.await("its release", 3*time.Second, func() bool {
						_, found, _, err := c.store.Get(c.t.Context(),
							c.store.Keys().Assignment("n1", "late"), store.Consistent)
						return err == nil && !found
					})
				})
			})
		}
	}
}

// refusing is a way to Consul that refuses every transaction that holds all of these texts.
func refusing(to http.RoundTripper, how refusal, texts ...string) http.RoundTripper {
	return agentOnly(to, "/v1/txn", func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		for _, text := range texts {
			if !bytes.Contains(body, []byte(text)) {
				return nil, nil
			}
		}
		return transport.Answer(r, how.status, how.body), nil
	})
}

// An item that cannot be released keeps no others from being released, nor from being started.
func TestItemsThatCannotBeReleasedConcernNoOthers(t *testing.T) {
	for _, how := range []refusal{{400, "blocked by policy"}, {403, "Permission denied"},
		{500, "out of order"}} {
		for _, many := range []int{1, 2, 50} {
			t.Run(fmt.Sprintf("%d %s", many, how.body), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.way = refusing(c.consul.RoundTripper(), how, `"delete-cas"`, "a-poison")
					items, poison := c.items(100), []string{}
					for i := range many {
						poison = append(poison, fmt.Sprintf("a-poison_%04d", i))
					}
					c.addWork(append(poison, items...)...)
					c.start("n1")
					c.await("all of it runs", 20*time.Second, c.balanced(100+many))
					assigned := func() int {
						keys, err := c.store.ListKeys(c.t.Context(),
							c.store.Keys().AssignmentsOf("n1"), "")
						if err != nil {
							t.Fatal(err)
						}
						return len(keys) - 1 // the sentinel
					}
					c.removeWork(poison...)
					time.Sleep(time.Minute)
					c.addWork("late")
					c.await("a later one", 3*time.Second, c.runs([]string{"late"}))
					c.removeWork(items[:10]...)
					c.await("its release", 15*time.Second, func() bool {
						return assigned() == 91+many
					})
					// What is answered is not taken for silence at a stop either.
					if how.status == 403 {
						c.start("n2")
						time.Sleep(20 * time.Second)
						c.stop("n1")
						c.await("the others run", 3*time.Second,
							c.runs(append(items[10:], "late")))
					}
				})
			})
		}
	}
}

// An item that may not be granted keeps no others from having an owner.
func TestItemsThatCannotBeGrantedConcernNoOthers(t *testing.T) {
	for _, how := range []refusal{{400, "blocked by policy"}, {403, "Permission denied"},
		{409, `{"Results":null,"Errors":[{"OpIndex":5,"What":"Permission denied: token x"}]}`}} {
		for _, many := range []int{1, 2, 50} {
			t.Run(fmt.Sprintf("%d %d", many, how.status), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.way = refusing(c.consul.RoundTripper(), how, `"cas"`, "a-poison")
					items := c.items(300)
					c.addWork(items...)
					for i := range many {
						c.addWork(fmt.Sprintf("a-poison_%04d", i))
					}
					c.start("n1")
					c.start("n2")
					c.await("the others run", 20*time.Second, c.runs(items))
					c.start("n3")
					c.await("its share", 30*time.Second, func() bool {
						return c.loads()["n3"] > 60 && sum(c.loads()) == 300
					})
					c.addWork("late")
					c.await("a later one", 10*time.Second, c.runs([]string{"late"}))
					c.kill("n3")
					c.await("taken over", 33*time.Second, c.runs(append(items, "late")))
				})
			})
		}
	}
}
