package actors_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
		if b := c.members[c.leader()].c.Distribution().Get().Brake; !strings.Contains(b, "60 of 60") {
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

// Nobody leads while the order is given: the next leader finds it there.
func TestARemovalWhileNobodyLeadsIsObeyed(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		c.kill(c.leader())
		c.must(c.operator().RemoveWork(c.t.Context(), c.items(50)...))
		c.addWork("extra_1")
		c.await("the rest and the new one", time.Minute, c.balanced(11))
	})
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
		if b := c.members[c.leader()].c.Distribution().Get().Brake; !strings.Contains(b, "60 of 60") {
			t.Errorf("the plan does not say that the brake holds: %q", b)
		}
	})
}

// The next leader measures anew, against the keys that are assigned.
func TestTheNextLeaderHoldsTheBrakeWhileMostIsGone(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 60)
		time.Sleep(10 * time.Second)
		c.removeWork(c.items(60)[:40]...)
		for range 2 { // leaders
			time.Sleep(time.Minute)
			before := c.loads()
			c.kill(c.leader())
			time.Sleep(2 * time.Minute)
			after := c.loads()
			for id := range after {
				if after[id] != before[id] {
					t.Errorf("the next leader went on without its brake: %v before, %v then",
						before, after)
				}
			}
			if b := c.members[c.leader()].c.Distribution().Get().Brake; b == "" {
				t.Error("the next leader has no brake")
			}
		}
		c.addWork(c.items(60)...)
		c.await("all run again", 30*time.Second, c.balanced(60))
	})
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
