package actors_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// deafFor is a way of a host's to Consul that does not come back for the long polls of one actor,
// not even when their contexts end.
func deafFor(to http.RoundTripper, actor string, heard chan struct{}) http.RoundTripper {
	return transport.When(to, pollsBy(actor), func(r *http.Request) (*http.Response, error) {
		<-heard
		return to.RoundTrip(r)
	})
}

// pollsBy picks the long polls of one actor.
func pollsBy(actor string) func(*http.Request) bool {
	return func(r *http.Request) bool { return transport.Poll(r) && transport.By(r, actor) }
}

// What a leader notes as the last of its term hangs as any other request may.
func TestALeaderWhoseLastNoteIsSwallowedMakesWay(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 6)
		first := c.leader()
		leader := c.members[first]
		c.kill(c.follower())
		time.Sleep(c.members[first].c.Settings().Bounds().TakeOver / 2) // there is something to note
		heard := make(chan struct{})
		free := sync.OnceFunc(func() { close(heard) })
		defer free()
		to, notes := c.consul.RoundTripper(), transport.TxnWith("leader_state")
		swallowed := atomic.Bool{}
		leader.net.Via(transport.When(to, func(r *http.Request) bool {
			return notes(r) && transport.By(r, "assigner") && !swallowed.Swap(true)
		}, func(r *http.Request) (*http.Response, error) {
			<-heard
			return to.RoundTrip(r)
		}))
		op, err := actors.NewOperator(c.client, "demo")
		c.must(err)
		c.must(op.Drain(c.t.Context(), first))
		c.await("another leads", actors.StuckAfter+30*time.Second+
			leader.c.Settings().Bounds().TakeOverLeader, func() bool {
			now := c.leader()
			return now != "" && now != first
		})
		if !swallowed.Load() {
			c.t.Error("nothing was noted, so nothing was tried")
		}
		free()
		c.await("all in order again", 2*time.Minute, c.runs(c.items(6)))
	})
}

// A watch waits for most of its time, so that it hangs shows later.
func TestAMemberWhoseWayToConsulSwallowsALongPollGivesUpWhatItHolds(t *testing.T) {
	for _, actor := range []string{"member-watcher", "ack-watcher", "workload-watcher",
		"assignment-watcher", "leader-watcher"} {
		t.Run(actor, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork(c.items(4)...)
				n1 := c.start("n1")
				time.Sleep(2 * time.Second)
				c.start("n2")
				c.await("shared out", 20*time.Second, c.balanced(4))
				heard := make(chan struct{})
				free := sync.OnceFunc(func() { close(heard) })
				defer free()
				n1.net.Via(deafFor(c.consul.RoundTripper(), actor, heard))
				time.Sleep(5 * time.Second)
				c.provoke(actor)
				for i := range 4 {
					c.addWork(fmt.Sprintf("meanwhile-%d", i))
				}
				limit := store.DefaultPollWait*17/16 + actors.StuckAfter + 30*time.Second +
					n1.c.Settings().Renew + n1.c.Settings().Bounds().TakeOverLeader
				c.await("all at n2", limit, func() bool {
					loads := c.loads()
					return loads["n1"] == 0 && loads["n2"] == 8 && c.leader() == "n2"
				})
				free()
				c.await("all in order again", 60*time.Second, c.balanced(8))
				c.consistent()
			})
		})
	}
}

// A large answer that keeps coming is no sign that who reads it hangs.
func TestALargeAnswerOverAThinLineCostsNoSession(t *testing.T) {
	run(t, func(c *cluster) {
		c.addLarge()
		line := &transport.Thin{To: c.consul.RoundTripper(), Pace: 200 << 10}
		m := c.start("n1", func(cfg *actors.Config) {
			client, err := store.NewClient(&api.Config{Address: "consul.test",
				HttpClient: &http.Client{Transport: line}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Client = client
		})
		c.await("all of it runs", 30*time.Minute, func() bool { return c.loads()["n1"] == large })
		if s := m.c.Session().Get(); s.Count != 1 {
			t.Errorf("%d sessions", s.Count)
		}
	})
}

// silentFor is a way on which one long poll of an actor dies in silence: no answer comes, and
// nothing is closed.
func silentFor(to http.RoundTripper, actor string) http.RoundTripper {
	var died atomic.Bool
	polls := pollsBy(actor)
	return transport.When(to, func(r *http.Request) bool {
		return polls(r) && died.CompareAndSwap(false, true)
	}, transport.Hang)
}

// What a long poll waits for that dies by itself comes as late as that poll is given up, and no
// later.
func TestALongPollThatDiesInSilenceIsGivenUpInTime(t *testing.T) {
	for _, actor := range []string{"member-watcher", "ack-watcher", "workload-watcher",
		"assignment-watcher", "leader-watcher"} {
		t.Run(actor, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork(c.items(6)...)
				for _, id := range []string{"n1", "n2", "n3"} {
					c.start(id)
				}
				c.await("shared out", time.Minute, c.balanced(6))
				time.Sleep(10 * time.Second)
				leader, victim := c.members[c.leader()], c.follower()
				leader.net.Via(silentFor(c.consul.RoundTripper(), actor))
				c.provoke(actor)
				time.Sleep(time.Second)
				c.addWork("meanwhile")
				c.kill(victim)
				const ladder = 6 * time.Second // its longest step
				silence := store.DefaultPollWait*17/16 + store.DefaultCallTimeout
				c.await("all", silence+ladder+leader.c.Settings().Bounds().TakeOver,
					c.runs(append(c.items(6), "meanwhile")))
			})
		})
	}
}

// Work that is called again has its payload read anew. Where that never comes back nobody works on
// the item.
func TestAnItemWhoseWorkHangsOnTheWayToConsulIsGivenUp(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		fail := make(chan struct{})
		var n1 *member
		n1 = c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				own, cancel := context.WithCancel(ctx)
				defer cancel()
				if item.ID == c.items(1)[0] {
					go func() {
						defer cancel()
						select {
						case <-fail:
						case <-own.Done():
						}
					}()
				}
				return c.work(own, n1, item)
			}
		})
		c.await("all at n1", 20*time.Second, c.balanced(4))
		c.start("n2")
		time.Sleep(time.Second)
		var asked atomic.Bool
		heard := make(chan struct{})
		free := sync.OnceFunc(func() { close(heard) })
		defer free()
		// What the item's own goroutine asks does not come back, not even when its context ends.
		consul := c.consul.RoundTripper()
		n1.net.Via(transport.When(consul, func(r *http.Request) bool {
			return transport.By(r, "/"+c.items(1)[0])
		}, func(r *http.Request) (*http.Response, error) {
			asked.Store(true)
			<-heard
			return consul.RoundTrip(r)
		}))
		fail <- struct{}{}
		c.await("the item's work, called again", time.Minute, asked.Load)
		set := n1.c.Settings()
		c.await("the item", actors.StuckAfter+set.Renew+set.Bounds().TakeOverLeader,
			c.runs(c.items(1)))
		free()
		c.await("all in order again", time.Minute, c.balanced(4))
		c.consistent()
	})
}
