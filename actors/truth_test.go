package actors_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// said is what an operator is told of one item.
func (c *cluster) said(item string) operator.Explanation {
	c.t.Helper()
	e, err := c.operator().Explain(c.t.Context(), item)
	c.must(err)
	return e
}

// is waits until an operator is told that an item is in a state.
func (c *cluster) is(item string, state operator.ItemState, within time.Duration) {
	c.t.Helper()
	c.await(item+" is "+string(state), within, func() bool { return c.said(item).State == state })
}

// problems is all that is wrong, for an operator.
func (c *cluster) problems() string {
	c.t.Helper()
	s, err := c.operator().Status(c.t.Context())
	c.must(err)
	return s.Problem()
}

// interruption is an end that is no failure of the work, as of a command whose guard is killed.
type interruption struct{ error }

func (interruption) Interrupted() bool { return true }

// What is said to run has been running 3 s ago: whatever it was that ended it.
func TestTheEndOfWorkIsToldWhateverEndsIt(t *testing.T) {
	for name, work := range map[string]struct {
		ends   func(ctx context.Context, item actors.Item) error
		states []operator.ItemState // one after the other, until it ends well
	}{
		"by itself": {func(context.Context, actors.Item) error { return errors.New("exit code 3") },
			[]operator.ItemState{operator.ItemLooping}},
		"by its guard, or its lease": {func(context.Context, actors.Item) error {
			return interruption{errors.New("lease-ended")}
		}, []operator.ItemState{operator.ItemLooping}},
		"it waits for its turn": {func(ctx context.Context, item actors.Item) error {
			item.Runs(false)
			<-ctx.Done()
			return nil
		}, []operator.ItemState{operator.ItemStarting}},
		"it waits, and then runs": {func(ctx context.Context, item actors.Item) error {
			item.Runs(false)
			time.AfterFunc(20*time.Second, func() { item.Runs(true) })
			<-ctx.Done()
			return nil
		}, []operator.ItemState{operator.ItemStarting, operator.ItemRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork("w")
				m := c.start("n1", func(cfg *actors.Config) { cfg.Work = work.ends })
				for _, state := range work.states {
					c.is("w", state, 30*time.Second)
					time.Sleep(3 * time.Second)
					if own := m.c.OwnItems(); own.States[state] != 1 {
						t.Errorf("it is %s, and the member itself knows of %v", state, own.States)
					}
				}
			})
		})
	}
}

// Work that ends with the lease has not failed. When it runs again it is told why it ended, and a
// new grant is not told with the time of the old one.
func TestAnEndForWantOfALeaseIsToldWhenTheWorkRunsAgain(t *testing.T) {
	for why, ends := range map[string]func(c *cluster, m *member){
		"lease-over": func(c *cluster, m *member) {
			m.net.Freeze()
			c.await("the end of its work", 30*time.Second, func() bool { return c.loads()["n1"] == 0 })
			m.net.Thaw()
		},
		"session-lost": func(c *cluster, m *member) {
			_, err := c.client.Session().Destroy(m.c.Session().Get().ID, nil)
			c.must(err)
		},
	} {
		t.Run(why, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addWork(c.items(200)...) // more than are named
				m := c.start("n1")
				item := c.items(200)[199]
				c.is(item, operator.ItemRunning, 20*time.Second)
				time.Sleep(5 * time.Second)
				before := c.said(item)
				at := time.Now()
				ends(c, m)
				c.addWork("later")
				c.await("its last end", 90*time.Second, func() bool {
					e := c.said(item)
					return e.State == operator.ItemRunning && strings.Contains(e.LastExit, why)
				})
				e := c.said(item)
				if e.LastExitAt.Before(at) || e.Restarts != 0 || before.ThereSince.IsZero() ||
					(e.Grant == before.Grant) == e.ThereSince.IsZero() {
					t.Errorf("it says %+v, and before %+v", e, before)
				}
				c.is("later", operator.ItemRunning, 20*time.Second)
				if e := c.said("later"); e.LastExit != "" || e.ThereSince.IsZero() {
					t.Errorf("of an item that was given to it later it says %+v", e)
				}
			})
		})
	}
}

// A function that ignores its order keeps its item from everybody, and nobody else can end it.
func TestWorkThatIgnoresItsOrderToStopIsAProblem(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("w")
		end := make(chan struct{})
		m := c.start("n1", func(cfg *actors.Config) {
			cfg.StopTimeout = 5 * time.Second
			cfg.Work = func(context.Context, actors.Item) error { <-end; return nil }
		})
		c.is("w", operator.ItemRunning, 20*time.Second)
		c.removeWork("w")
		c.is("w", operator.ItemStopping, 10*time.Second)
		c.is("w", operator.ItemStuck, 12*time.Second)
		if p := c.problems(); !strings.Contains(p, "1 item ignores its order to stop: w") {
			t.Errorf("the problems are %q", p)
		}
		if own := m.c.OwnItems(); len(own.Stuck) != 1 || own.States[operator.ItemStuck] != 1 {
			t.Errorf("the member itself knows of %+v", own)
		}
		close(end)
		c.await("its release", 10*time.Second, func() bool { return c.problems() == "" })
	})
}

// After a silence Consul may have taken a write whose answer was lost.
func TestAfterASilenceItIsToldWhatRunsAgain(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(10)...)
		m := c.start("n1", func(cfg *actors.Config) { cfg.CheckTTL = actors.NoCheck })
		c.await("all items", 20*time.Second, func() bool {
			return c.problems() == "" &&
				c.said(c.items(1)[0]).State == operator.ItemRunning
		})
		m.net.Via(transport.Mute(c.consul.RoundTripper()))
		time.Sleep(14 * time.Second)
		m.net.Via(c.consul.RoundTripper())
		c.await("all items", 40*time.Second, func() bool {
			s, err := c.operator().Status(c.t.Context())
			return err == nil && s.Work.States[operator.ItemRunning] == 10
		})
		time.Sleep(time.Minute)
		if p := c.problems(); p != "" {
			t.Errorf("a minute later: %s", p)
		}
	})
}

// What Consul has may be no word of the member's: its key is mended, and where it cannot be written
// the check says so.
func TestStatesThatCannotBeBelievedAreUnknown(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork("w")
		m := c.start("n1")
		c.is("w", operator.ItemRunning, 20*time.Second)
		c.delete("states/n1")
		c.is("w", operator.ItemUnknown, time.Second)
		c.is("w", operator.ItemRunning, 62*time.Second)
		s, _ := c.summary("n1")
		s.Counts, s.Seq = map[string]int{"running": 7}, 99
		c.put("states/n1", string(s.Encode()))
		c.await("its own word", 62*time.Second, c.counted("n1", "running", 1))
		to := c.consul.RoundTripper()
		m.net.Via(transport.Func(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(transport.Txn(r), "states/n1") {
				return transport.Answer(r, http.StatusForbidden, "Permission denied"), nil
			}
			return to.RoundTrip(r)
		}))
		c.addWork("v")
		c.await("a warning", 20*time.Second, func() bool {
			e := c.said("w")
			return e.State == operator.ItemUnknown && e.Cause == operator.CauseBehind
		})
		if p := c.problems(); !strings.Contains(p, "n1 cannot tell what the work of its items") {
			t.Errorf("the problems are %q", p)
		}
		m.net.Via(to)
		c.is("w", operator.ItemRunning, 20*time.Second)
	})
}
