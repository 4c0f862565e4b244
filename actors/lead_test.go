package actors_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
)

// The host's Lead function runs on one member at a time. Every test of this package is held
// to that (see start); here are the ways in which two might be at it.

// blind cuts a member off and has its session ended early: it counts on its lease.
func (c *cluster) blind(id string) {
	c.t.Helper()
	session := c.members[id].c.Session().Get().ID
	c.members[id].net.Cut(errors.New("connection refused"))
	if err := c.store.DestroySession(c.t.Context(), session); err != nil {
		c.t.Fatal(err)
	}
}

// awaitLead waits until a member other than those is in its Lead function.
func (c *cluster) awaitLead(limit time.Duration, not ...string) (leads string, took time.Duration) {
	c.t.Helper()
	took = c.await("another member's Lead", limit, func() bool {
		leads = c.leader()
		for _, id := range not {
			if leads == id {
				return false
			}
		}
		return leads != ""
	})
	return leads, took
}

// awaitTerm waits until another member holds the leader key.
func (c *cluster) awaitTerm(limit time.Duration, not string) (leads string) {
	c.t.Helper()
	c.await("another leader", limit, func() bool {
		for id, m := range c.members {
			if id != not && m.c.Leadership().Get().Term != 0 {
				leads = id
			}
		}
		return leads != ""
	})
	return leads
}

func (c *cluster) term() protocol.Term {
	c.t.Helper()
	e, _, _, err := c.store.Get(c.t.Context(), c.store.Keys().Term(), store.Consistent)
	if err != nil {
		c.t.Fatal(err)
	}
	t, err := protocol.ParseTerm(e.Value)
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

func TestLeadBeginsOnlyWhenThePredecessorsLeaseIsOver(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		old := c.leader()
		c.blind(old)
		leads := c.awaitTerm(2*time.Second, old) // the assigner need not wait
		next, took := c.awaitLead(12*time.Second, old)
		if next != leads || took < 5*time.Second {
			t.Errorf("%s's Lead began %v after %s took over from %s", next, took, leads, old)
		}
		c.await("the term is clear", 2*time.Second, func() bool { return c.term().Clear })
	})
}

func TestLeadBeginsAtOnceAfterAResignation(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 9)
		for range 2 {
			old := c.leader()
			c.stop(old)
			if _, took := c.awaitLead(time.Second, old); took > 200*time.Millisecond {
				t.Errorf("Lead began %v after %s had resigned", took, old)
			}
		}
	})
}

// A leader that goes before its predecessor's lease is over leaves the rest of the wait to the next
// one, whether it resigns or is cut off in its turn.
func TestTheWaitForAPredecessorsLeaseIsPassedOn(t *testing.T) {
	for name, goes := range map[string]func(c *cluster, id string){
		"resigned": (*cluster).stop,
		"cut off":  (*cluster).blind,
		"known dead": func(c *cluster, id string) {
			m := c.members[id]
			session := m.c.Session().Get().ID
			c.kill(id)
			if err := c.store.DestroySession(c.t.Context(), session); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var dead sync.Map
				knows := func(cfg *actors.Config) {
					if cfg.ID == "n1" {
						cfg.TTL = 40 * time.Second
					}
					cfg.Liveness = func(p actors.Process) actors.Liveness {
						if _, ok := dead.Load(p.Instance); ok {
							return actors.Dead
						}
						return actors.Unknown
					}
				}
				c.start("n1", knows)
				c.awaitLead(5 * time.Second)
				c.start("n2", knows)
				c.start("n3", knows)
				time.Sleep(20 * time.Second)
				begin := time.Now()
				c.blind("n1")
				second := c.awaitTerm(5*time.Second, "n1")
				dead.Store(c.members[second].c.Settings().Process.Instance, true)
				time.Sleep(time.Second)
				goes(c, second)
				next, _ := c.awaitLead(80*time.Second, "n1")
				t.Logf("%s leads %v after the end of n1's session", next, time.Since(begin))
				if next == second {
					t.Fatalf("%s still leads", second)
				}
			})
		})
	}
}

// A leader whose process is known to be dead has left nobody at its duty.
func TestLeadBeginsAtOnceWhenThePredecessorIsKnownDead(t *testing.T) {
	run(t, func(c *cluster) {
		old := actors.Process{}
		knows := func(cfg *actors.Config) {
			cfg.Liveness = func(p actors.Process) actors.Liveness {
				if p.Instance == old.Instance && p.Lock == actors.NoLock { // as by default
					return actors.Dead
				}
				return actors.Unknown
			}
		}
		c.start("n1", knows)
		c.awaitLead(5 * time.Second)
		c.start("n2", knows)
		time.Sleep(5 * time.Second)
		m := c.members["n1"]
		old = *m.c.Settings().Process
		session := m.c.Session().Get().ID
		c.kill("n1")
		if err := c.store.DestroySession(c.t.Context(), session); err != nil {
			t.Fatal(err)
		}
		if _, took := c.awaitLead(5*time.Second, "n1"); took > 2*time.Second {
			t.Errorf("Lead began after %v", took)
		}
	})
}

// Consul answers nothing any more, while the leader asks it for a new epoch again and again:
// neither that nor a take whose answer comes late keeps Lead going beyond the lease.
func TestLeadEndsBeforeTheLeaseDoesWhileConsulDoesNotAnswer(t *testing.T) {
	for phase := range 12 {
		t.Run(fmt.Sprintf("phase %d", phase), func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 9)
				time.Sleep(10*time.Second + time.Duration(phase)*time.Second/3)
				id := c.leader()
				m := c.members[id]
				c.addWork("one more")
				time.Sleep(m.c.Settings().Merge - time.Millisecond)
				m.net.Freeze() // its grant is in doubt
				for m.c.Session().Get().Lease.Left(time.Now()) > time.Millisecond {
					time.Sleep(time.Millisecond)
				}
				c.mu.Lock()
				if c.leading[id] > 0 {
					t.Errorf("%s is still at its Lead when its lease ends", id)
				}
				c.mu.Unlock()
				m.net.Thaw()
				time.Sleep(20 * time.Second)
			})
		})
	}
}

// A Lead function that takes longer to return than StopTimeout is abandoned at the stop; the next
// one waits as if there had been no resignation.
func TestALeadThatIsAbandonedAtAStopIsNotResignedFrom(t *testing.T) {
	run(t, func(c *cluster) {
		n1 := c.start("n1", resignsIn(8*time.Second), func(cfg *actors.Config) {
			cfg.StopTimeout = 2 * time.Second
		})
		c.awaitLead(20 * time.Second)
		c.start("n2")
		time.Sleep(15 * time.Second)
		n1.cancel()
		leads := c.awaitTerm(6*time.Second, "n1") // the assigner need not wait
		c.await("the next Lead", 20*time.Second, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.leading[leads] > 0
		})
		<-n1.done
		delete(c.members, "n1")
		time.Sleep(10 * time.Second)
		c.stop("n2")
	})
}

// Leaders that come and go while a lost leader's lease is waited for hand on how much of it is
// left.
func TestTheWaitForAPredecessorsLeaseIsNotProlongedByLeadersThatComeAndGo(t *testing.T) {
	run(t, func(c *cluster) {
		for i := range 8 {
			c.start(fmt.Sprintf("n%d", i))
		}
		lost, _ := c.awaitLead(5 * time.Second)
		time.Sleep(10 * time.Second)
		bound := c.members[lost].c.Settings().Bounds().TakeOverLead.Total()
		begin := time.Now()
		c.kill(lost)
		for c.leader() == "" {
			second := c.awaitTerm(30*time.Second, lost)
			testkit.Virtual(4*time.Second, 50*time.Millisecond, func() bool { return c.leader() != "" })
			if took := time.Since(begin); took > bound {
				t.Fatalf("not within %v: another member's Lead", bound)
			}
			if c.leader() == "" {
				c.stop(second)
			}
		}
		t.Logf("begun within %v, the bound is %v", time.Since(begin), bound)
	})
}
