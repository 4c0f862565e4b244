package actors_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// How long a vanished member has been waited for passes from leader to leader (see also
// TestAGraceIsNotProlongedByLeadersThatComeAndGo).

func keeps(d time.Duration) option {
	return func(cfg *actors.Config) { cfg.KeepItems = d }
}

// Its items had nowhere to go when the wait was over.
func TestAWaitThatIsOverIsNotWaitedForAnewByTheNextLeader(t *testing.T) {
	const keep = 10 * time.Minute
	three := func(cfg *actors.Config) { cfg.Capacity = 3 }
	for name, goes := range map[string]func(c *cluster){
		"kept": func(c *cluster) { c.stop("n1"); time.Sleep(keep) },
		"lost": func(c *cluster) { c.kill("n1"); time.Sleep(time.Minute) },
	} {
		for _, since := range []time.Duration{30 * time.Second, 5 * time.Minute} {
			t.Run(name+", over for "+since.String(), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.addWork(c.items(9)...)
					c.start("n0", three)
					time.Sleep(2 * time.Second)
					options := []option{three}
					if name == "kept" {
						options = append(options, keeps(keep))
					}
					c.start("n1", options...)
					c.start("n2", three)
					c.await("shared out", time.Minute, c.balanced(9))
					its := c.itemsOf("n1")
					goes(c)
					time.Sleep(since)
					c.start("n3") // there is room
					c.stop("n0")
					if took := c.await("its items elsewhere", 30*time.Minute,
						c.runs(its)); took > 3*time.Second {
						t.Errorf("taken over %v after there was room", took)
					}
				})
			})
		}
	}
}

// While it is over, and nothing can be done, the note is written as often as it has to be.
func TestAWaitThatIsOverIsNotedSeldom(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		two := func(cfg *actors.Config) { cfg.Capacity = 2 }
		c.start("n0", two)
		time.Sleep(2 * time.Second)
		c.start("n1", two)
		c.await("shared out", time.Minute, c.balanced(4))
		c.kill("n1")
		time.Sleep(time.Minute)
		notes, last := -1, uint64(0)
		for range 600 {
			e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().LeaderState(), store.Consistent)
			c.must(err)
			if e.ModifyIndex != last {
				notes, last = notes+1, e.ModifyIndex
			}
			time.Sleep(time.Second)
		}
		if notes < 39 || notes > 40 { // a note lives for a minute
			t.Errorf("%d notes in 10 minutes", notes)
		}
	})
}

// It was confirmed by the leader before, and by the one after it.
func TestAWaitIsHandedOnByALeaderThatCannotConfirmIt(t *testing.T) {
	run(t, func(c *cluster) {
		const keep = 10 * time.Minute
		c.addWork(c.items(30)...)
		c.start("n0")
		time.Sleep(2 * time.Second)
		c.start("n1", keeps(keep))
		c.start("n2")
		c.await("shared out", time.Minute, c.balanced(30))
		its, session := c.itemsOf("n1"), c.members["n1"].c.Session().Get().ID
		c.stop("n1")
		began := time.Now()
		time.Sleep(8 * time.Minute)
		c.members["n2"].net.Via(transport.When(c.consul.RoundTripper(),
			holding("GET", "session/info/"+session), transport.Always(403, "Permission denied")))
		c.stop("n0")
		c.await("n2 leads", time.Minute, func() bool { return c.leader() == "n2" })
		c.start("n3")
		time.Sleep(90 * time.Second) // longer than a note lives
		c.stop("n2")
		c.await("its items elsewhere", 30*time.Minute, c.runs(its))
		if took := time.Since(began); took > keep+2*time.Minute {
			t.Errorf("taken over after %v", took)
		}
	})
}

// A stranger has touched the leader key, and the watch that would tell has died in silence.
func TestALeaderWhoseNotesAreRefusedTakesANewEpoch(t *testing.T) {
	run(t, func(c *cluster) {
		k, ctx, to := c.store.Keys(), c.t.Context(), c.consul.RoundTripper()
		c.addWork(c.items(4)...)
		var deaf atomic.Bool
		polls := holding("GET", "/leader?", "index=")
		c.way = transport.Unheard(to, func(r *http.Request) bool {
			return deaf.Load() && polls(r)
		}, transport.Hang)
		c.start("n0")
		time.Sleep(2 * time.Second)
		c.start("n1", keeps(10*time.Minute))
		c.await("shared out", time.Minute, c.balanced(4))
		c.stop("n1")
		time.Sleep(20 * time.Second)
		deaf.Store(true)
		e, _, _, err := c.store.Get(ctx, k.Leader(), store.Consistent)
		c.must(err)
		_, err = c.store.Txn(ctx, store.Lock(k.Leader(), e.Value, e.Flags+1, e.Session))
		c.must(err)
		touched := time.Now()
		c.await("a note", 10*time.Second, func() bool {
			e, _, _, err := c.store.Get(ctx, k.LeaderState(), store.Consistent)
			c.must(err)
			s, err := protocol.ParseLeaderState(e.Value)
			c.must(err)
			return s.At.After(touched)
		})
	})
}
