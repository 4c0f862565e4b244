package actors_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// boundSettings are settings on which the formulas must hold, the defaults first.
var boundSettings = []actors.Config{
	{},
	{Timing: actors.Timing{CheckTTL: actors.NoCheck}},
	{Timing: actors.Timing{Lease: 3 * time.Second}},
	{Timing: actors.Timing{Lease: 3 * time.Second, CheckTTL: time.Second}},
	{Timing: actors.Timing{TTL: 30 * time.Second, LockDelay: 5 * time.Second,
		Lease: 8 * time.Second}},
	{Timing: actors.Timing{Grace: 25 * time.Second, Merge: time.Second,
		WorkerSoak: 3 * time.Second}},
	{Timing: actors.Timing{TTL: 20 * time.Second, Renew: 2 * time.Second,
		LeaseMargin: 4 * time.Second,
		LockDelay:   time.Millisecond}},
	{Timing: actors.Timing{TTL: 5 * time.Second}},
	{Timing: actors.Timing{TTL: 3 * time.Second, CheckTTL: actors.NoCheck}},
}

// tried: under the race detector each settings are tried at some of the phases only.
func tried(settings, phase int) bool {
	return !raceDetector || phase%len(boundSettings) == settings
}

func with(s actors.Config) option {
	return func(cfg *actors.Config) {
		cfg.Timing = s.Timing
	}
}

func startWith(c *cluster, s actors.Config) {
	c.addWork(c.items(30)...)
	for _, id := range []string{"n1", "n2", "n3"} {
		c.start(id, with(s))
	}
	c.await("shared out", time.Minute, c.balanced(30))
	c.await("settled", time.Minute, func() bool {
		return c.members[c.leader()].c.Distribution().Get().Settled
	})
}

// betweenRenewals lets f happen under each settings at several moments between two renewals.
func betweenRenewals(t *testing.T, phases int, f func(c *cluster, cfg actors.Config)) {
	for i, s := range boundSettings {
		for phase := range phases {
			if !tried(i, phase) {
				continue
			}
			t.Run(fmt.Sprintf("settings %d phase %d", i, phase), func(t *testing.T) {
				run(t, func(c *cluster) {
					startWith(c, s)
					cfg := c.members["n1"].c.Settings()
					time.Sleep(time.Duration(phase) * cfg.Renew / time.Duration(phases))
					f(c, cfg)
				})
			})
		}
	}
}

// atEachPhase does so to a follower and to the leader.
func atEachPhase(t *testing.T, f func(c *cluster, victim string, leads bool)) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("leader ", leads), func(t *testing.T) {
			betweenRenewals(t, 4, func(c *cluster, _ actors.Config) {
				if leads {
					f(c, c.leader(), true)
				} else {
					f(c, c.follower(), false)
				}
			})
		})
	}
}

// takenOver waits until the items of a member that has just gone run elsewhere.
func takenOver(c *cluster, bound time.Duration) {
	c.t.Helper()
	took := c.await("its items elsewhere", bound, c.balanced(30))
	c.t.Logf("taken over after %v of %v at most", took, bound)
	if took < bound/2 {
		c.t.Errorf("taken over after %v: the bound of %v says little", took, bound)
	}
}

// A member's death at any moment between two renewals.
func TestATakeOverTakesNoLongerThanItsBound(t *testing.T) {
	atEachPhase(t, func(c *cluster, victim string, leads bool) {
		b := c.members[victim].c.Settings().Bounds()
		c.kill(victim)
		bound := b.TakeOver.Total()
		if leads {
			bound += b.OfLeader.Total()
		}
		takenOver(c, bound)
	})
}

// Consul ends all sessions of an agent that leaves, and of one that its gossip takes for lost: from
// then on it is the lease that is waited for. The member cannot hear of it.
func TestATakeOverAfterAnAgentHasLeftTakesNoLongerThanItsBound(t *testing.T) {
	atEachPhase(t, func(c *cluster, victim string, leads bool) {
		f := c.members[victim].c.Settings().Bounds()
		bound := f.TakeOverLeft.Total()
		if leads {
			bound += f.OfLeader.Total()
		}
		session := c.members[victim].c.Session().Get().ID
		c.kill(victim)
		if _, err := c.client.Session().Destroy(session, nil); err != nil {
			c.t.Fatal(err)
		}
		takenOver(c, bound)
	})
}

// What is printed of a worst case is what it is reckoned with.
func TestAFormulaSaysWhatItAddsUpTo(t *testing.T) {
	f := actors.Config{Timing: actors.Timing{Lease: 3 * time.Second}}.Bounds()
	short := actors.Config{Timing: actors.Timing{TTL: 2 * time.Second}}.Bounds()
	for _, c := range []struct {
		formula actors.Formula
		text    string
		total   time.Duration
	}{
		{f.HandOver, "4 x merge 250ms + worker-soak 500ms + calls 1s", 2500 * time.Millisecond},
		{f.StopsWithin, "lease 3s - lease-margin 300ms", 2700 * time.Millisecond},
		{f.TakeOverUnchecked, "2 x ttl 10s + lease 3s + 4 x merge 250ms + poll 500ms + calls 1s",
			25500 * time.Millisecond},
		{f.TakeOverMachine, "gossip 8s + lease 3s + 4 x merge 250ms + poll 500ms + calls 1s",
			13500 * time.Millisecond},
		// where that is sooner than gossip the session's TTL is waited for
		{short.TakeOverMachine, "2 x ttl 2s + lease 2s + 4 x merge 250ms + poll 500ms + calls 1s",
			8500 * time.Millisecond},
	} {
		if got := c.formula.String(); got != c.text || c.formula.Total() != c.total {
			t.Errorf("%s is %v, want %s, %v", got, c.formula.Total(), c.text, c.total)
		}
	}
}

// The same for the host's duty, whose next run waits for a lease as well.
func TestLeadIsTakenOverWithinItsBound(t *testing.T) {
	betweenRenewals(t, 4, func(c *cluster, cfg actors.Config) {
		bound := cfg.Bounds().TakeOverLead.Total()
		old := c.leader()
		c.kill(old)
		if _, took := c.awaitLead(bound, old); took < bound/2 {
			c.t.Errorf("taken over after %v: the bound of %v says little", took, bound)
		}
	})
}

func TestASilenceOfConsulWithinItsBoundCostsNothing(t *testing.T) {
	betweenRenewals(t, 6, func(c *cluster, cfg actors.Config) {
		for _, m := range c.members {
			m.net.Cut(errors.New("connection refused"))
		}
		time.Sleep(cfg.Bounds().RideThrough.Total())
		for _, m := range c.members {
			m.net.Cut(nil)
		}
		time.Sleep(2 * cfg.TTL)
		if n := c.totalStarts(); n != 30 || !c.balanced(30)() {
			c.t.Errorf("%d starts of 30 items, loads %v", n, c.loads())
		}
	})
}
