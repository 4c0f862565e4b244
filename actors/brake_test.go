package actors_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
)

func TestTheBrakeHoldsAVanishedWorkloadUntilAnOperatorOverridesIt(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !c.balanced(60)() {
			t.Errorf("the brake did not hold: %v", c.loads())
		}
		if b := c.members[c.leader()].c.Plan().Get().Brake; !strings.Contains(b, "60 of 60") {
			t.Errorf("the plan does not say why nothing happens: %q", b)
		}
		if out := c.outputOf(c.leader()); !strings.Contains(out, "; the brake is on: ") ||
			!strings.Contains(out, "60 of 60") {
			t.Errorf("the leader's check does not say it: %q", out)
		}
		if out := c.outputOf(c.follower()); strings.Contains(out, "brake") {
			t.Errorf("the check of one that does not lead says %q", out)
		}
		c.put("control/override", time.Now().String())
		c.await("all work ended", 10*time.Second, c.balanced(0))
		c.await("the check says so no longer", 2*time.Second, func() bool {
			return !strings.Contains(c.outputOf(c.leader()), "brake")
		})
	})
}

// Nobody leads while the order is given, for as long as the TTL says: the next leader finds it
// there.
func TestARemovalWhileNobodyLeadsIsObeyed(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 5 * time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 60, func(cfg *actors.Config) { cfg.TTL = ttl })
				op := c.operator()
				c.kill(c.leader())
				if err := op.RemoveWork(c.t.Context(), c.items(50)...); err != nil {
					t.Fatal(err)
				}
				c.addWork("extra_1")
				c.await("the rest and the new one", 3*ttl+30*time.Second, c.balanced(11))
			})
		})
	}
}

// The next leader has the order at once, and takes its time to read what is assigned.
func TestARemovalIsObeyedByALeaderThatReadsSlowly(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		op := c.operator()
		c.kill(c.leader())
		for _, m := range c.members {
			to := m.net.To()
			m.net.Via(transport.Func(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/assignments/") {
					select {
					case <-time.After(20 * time.Second):
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}
				return to.RoundTrip(r)
			}))
		}
		if err := op.RemoveWork(c.t.Context(), c.items(50)...); err != nil {
			t.Fatal(err)
		}
		c.addWork("extra_1")
		c.await("the rest and the new one", 2*time.Minute, c.balanced(11))
	})
}

// An order of the past is about something else: the next leader's brake holds.
func TestAnOverrideIsForgottenByLaterLeaders(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		op := c.operator()
		if err := op.Override(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		c.kill(c.leader())
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := c.totalStarts(); n != 60 || c.leader() == "" {
			t.Errorf("%d starts, leader %q", n, c.leader())
		}
		if b := c.members[c.leader()].c.Plan().Get().Brake; !strings.Contains(b, "60 of 60") {
			t.Errorf("the plan does not say that the brake holds: %q", b)
		}
	})
}

// What was carried out before the brake came on says nothing of it, to the next leader neither.
func TestAnOverrideThatWasCarriedOutReleasesNoLaterBrake(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		c.must(c.operator().RemoveWork(c.t.Context(), c.items(1)...))
		time.Sleep(2 * time.Minute)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		before := c.loads()
		c.kill(c.leader())
		time.Sleep(time.Minute)
		for id, n := range c.loads() {
			if n != before[id] {
				t.Errorf("%s runs %d items, and %d before", id, n, before[id])
			}
		}
		if b := c.members[c.leader()].c.Plan().Get().Brake; !strings.Contains(b, "59 of 59") {
			t.Errorf("the next leader's brake: %q", b)
		}
		c.must(c.operator().Override(c.t.Context()))
		c.await("all work ended", 10*time.Second, c.balanced(0))
	})
}

// Most of the workload goes, one watch after the other.
func TestTheBrakeHoldsAWorkloadThatVanishesBitByBit(t *testing.T) {
	for gap, want := range map[time.Duration]int{45 * time.Millisecond: 30,
		600 * time.Millisecond: 22} {
		t.Run(gap.String(), func(t *testing.T) {
			run(t, func(c *cluster) {
				three(c, 30)
				time.Sleep(10 * time.Second)
				items := c.items(30)
				c.removeWork(items[:8]...)
				time.Sleep(gap)
				c.removeWork(items[8:18]...)
				time.Sleep(time.Minute)
				running := func() (n int) {
					for _, l := range c.loads() {
						n += l
					}
					return n
				}
				if n := running(); n != want {
					t.Errorf("%d of 30 items run on, want %d: 8, and then 10 of them were deleted",
						n, want)
				}
				o := c.operator()
				if s, err := o.Status(c.t.Context()); err != nil ||
					!strings.Contains(s.Brake, "18 of 30") {
					t.Errorf("the status says of the brake: %q, %v", s.Brake, err)
				}
				c.put("control/override", time.Now().Format(time.RFC3339Nano))
				c.await("the override to count", 5*time.Second, func() bool {
					return running() == 12
				})
				if s, err := o.Status(c.t.Context()); err != nil || s.Brake != "" {
					t.Errorf("afterwards the status says of the brake: %q, %v", s.Brake, err)
				}
				// Slowly is somebody's wish.
				for _, item := range items[18:29] {
					c.removeWork(item)
					time.Sleep(time.Second)
				}
				c.await("all but one given up", 5*time.Second, func() bool {
					return running() == 1
				})
			})
		})
	}
}

func TestABrakeLetsGoWhenTheItemsAreBack(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.addWork(c.items(60)...)
		time.Sleep(time.Minute)
		if b := c.members[c.leader()].c.Plan().Get().Brake; b != "" || c.totalStarts() != 60 {
			t.Errorf("brake %q, %d starts", b, c.totalStarts())
		}
	})
}

// Who leads next holds the brake too, though what is gone now is far from most of the workload:
// some is back already, or the last leader had obeyed before.
func TestTheNextLeaderHoldsTheBrakeForWhatIsStillGone(t *testing.T) {
	for name, goes := range map[string]func(c *cluster, items []string){
		"some are back": func(c *cluster, items []string) {
			c.removeWork(items[:40]...)
			time.Sleep(10 * time.Second)
			c.addWork(items[:15]...)
		},
		"bit by bit": func(c *cluster, items []string) {
			c.removeWork(items[:16]...)
			time.Sleep(600 * time.Millisecond)
			c.removeWork(items[16:36]...)
		},
		"bit by bit, and few at last": func(c *cluster, items []string) {
			c.removeWork(items[:28]...)
			time.Sleep(600 * time.Millisecond)
			c.removeWork(items[28:36]...)
		},
	} {
		run(t, func(c *cluster) {
			three(c, 60)
			time.Sleep(10 * time.Second)
			goes(c, c.items(60))
			for range 2 { // leaders
				time.Sleep(2 * time.Minute)
				before := c.loads()
				c.kill(c.leader())
				time.Sleep(2 * time.Minute)
				after := c.loads()
				for id := range after {
					if after[id] != before[id] {
						t.Errorf("%s: the next leader went on without its brake: %v before, "+
							"%v then", name, before, after)
					}
				}
				if b := c.members[c.leader()].c.Plan().Get().Brake; b == "" {
					t.Errorf("%s: the next leader has no brake", name)
				}
			}
			c.addWork(c.items(60)...)
			c.await("all run again", 30*time.Second, c.balanced(60))
		})
	}
}

func TestMostMembersVanishingAtOnceIsBrakedForAWhileOnly(t *testing.T) {
	run(t, func(c *cluster) {
		several(c, 8, 60)
		leader := c.leader()
		for i := range 8 {
			if id := fmt.Sprintf("n%d", i); id != leader && len(c.members) > 3 {
				c.kill(id)
			}
		}
		time.Sleep(50 * time.Second) // sessions and grace are over
		if c.balanced(60)() {
			t.Error("five of eight members vanished, and the rest was loaded with it at once")
		}
		c.await("taken over after all", 60*time.Second, c.balanced(60))
	})
}

// What goes from a workload while it is frozen is no other matter than what goes otherwise: most of
// it is braked, though something was removed by an order before, and a little of it is not.
func TestWhatGoesDuringAFreezeIsBrakedAsOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		ordered, gone int // of 60 items: removed by an order, and then in some other way
		braked        bool
	}{
		"most of it":  {1, 59, true},
		"a few items": {0, 11, false},
	} {
		run(t, func(cl *cluster) {
			three(cl, 60)
			op, items := cl.operator(), cl.items(60)
			cl.must(op.Freeze(cl.t.Context()))
			time.Sleep(time.Minute)
			for _, id := range items[:c.ordered] {
				cl.must(op.RemoveWork(cl.t.Context(), id))
			}
			time.Sleep(time.Minute)
			for _, id := range items[c.ordered : c.ordered+c.gone] {
				_, err := cl.client.KV().Delete(cl.store.Keys().WorkItem(id), nil)
				cl.must(err)
			}
			time.Sleep(time.Minute)
			cl.must(op.Thaw(cl.t.Context()))
			time.Sleep(time.Minute)
			left := 60
			if !c.braked {
				left -= c.gone
			}
			if b := cl.members[cl.leader()].c.Plan().Get().Brake; (b != "") != c.braked ||
				!cl.balanced(left)() {
				t.Errorf("%s: brake %q, loads %v", name, b, cl.loads())
			}
		})
	}
}

// What was meant with an override takes its time; what vanishes meanwhile was not meant.
func TestAnOverrideCountsForWhatHadVanishedByThen(t *testing.T) {
	run(t, func(c *cluster) {
		items := c.items(40)
		c.addWork(items...)
		for _, id := range []string{"n1", "n2", "n3"} {
			c.start(id, func(cfg *actors.Config) {
				work := cfg.Work
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					if slices.Contains(items[:20], item.ID) {
						lasting, cancel := outlasting(ctx, 3*time.Minute)
						defer cancel()
						return work(lasting, item)
					}
					return work(ctx, item)
				}
				cfg.StopTimeout = 4 * time.Minute
			})
		}
		c.await("shared out", time.Minute, c.balanced(40))
		op := c.operator()
		if err := op.RemoveWork(c.t.Context(), items[:25]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := c.client.KV().DeleteTree(c.store.Keys().Workload(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !c.runs(items[25:])() {
			t.Errorf("the brake did not hold for what vanished a minute after the order: %v",
				c.loads())
		}
		c.addWork(items[25:]...)
		time.Sleep(3 * time.Minute)
		if b := c.members[c.leader()].c.Plan().Get().Brake; b != "" || !c.balanced(15)() {
			t.Errorf("at last: brake %q, loads %v", b, c.loads())
		}
	})
}
