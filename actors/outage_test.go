package actors_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit"
)

func TestConsulAbsentForFiveSecondsCostsNothing(t *testing.T) {
	fiveSecondsCostNothing(t, func(m *member) { m.net.Cut(errors.New("connection refused")) },
		func(m *member) { m.net.Cut(nil) })
}

func TestConsulFrozenForFiveSecondsCostsNothing(t *testing.T) {
	fiveSecondsCostNothing(t, func(m *member) { m.net.Freeze() }, func(m *member) { m.net.Thaw() })
}

// fiveSecondsCostNothing disturbs all members for so long, at each phase of their renewals.
func fiveSecondsCostNothing(t *testing.T, disturb, mend func(*member)) {
	for _, phase := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
		run(t, func(c *cluster) {
			three(c, 99)
			time.Sleep(phase)
			leader, term := c.leader(), c.members[c.leader()].c.Leadership().Get().Term
			for _, m := range c.members {
				disturb(m)
			}
			time.Sleep(5 * time.Second)
			for _, m := range c.members {
				mend(m)
			}
			time.Sleep(30 * time.Second)
			if n := c.totalStarts(); n != 99 || !c.balanced(99)() {
				t.Errorf("phase %v: %d starts of 99 items, loads %v", phase, n, c.loads())
			}
			if l := c.members[leader].c.Leadership().Get(); l.Term != term {
				t.Errorf("phase %v: the leadership was lost: %+v", phase, l)
			}
		})
	}
}

func TestWithoutConsulAllWorkStopsBeforeItsLeaseEndsAndComesBack(t *testing.T) {
	run(t, func(c *cluster) {
		three(c, 99)
		var ends time.Time // the last lease's
		for _, m := range c.members {
			l := m.c.Session().Get().Lease
			if e := l.Start.Add(l.TTL); e.After(ends) {
				ends = e
			}
			m.net.Cut(errors.New("connection refused"))
		}
		time.Sleep(time.Until(ends))
		for id, n := range c.loads() {
			if n != 0 {
				t.Errorf("%s still works on %d items at the end of its lease", id, n)
			}
		}
		time.Sleep(time.Minute - time.Until(ends))
		for _, m := range c.members {
			m.net.Cut(nil)
		}
		took := c.await("all work again", 60*time.Second, c.balanced(99))
		t.Logf("back after %v", took)
	})
}

// That all work has ended for want of a lease is one line, as loud as it is important.
func TestTheEndOfAllWorkForWantOfALeaseIsOneWarning(t *testing.T) {
	for reason, ends := range map[string]func(c *cluster, m *member){
		"lease-over": func(c *cluster, m *member) { m.net.Freeze() },
		"session-lost": func(c *cluster, m *member) {
			_, err := c.client.Session().Destroy(m.c.Session().Get().ID, nil)
			c.must(err)
		},
		"": func(c *cluster, m *member) {
			c.must(c.operator().Drain(c.t.Context(), "loud"))
		},
	} {
		run(t, func(c *cluster) {
			three(c, 9)
			var log testkit.Output
			m := c.start("loud", func(cfg *actors.Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			c.await("its share", 20*time.Second, c.balanced(9))
			ends(c, m)
			time.Sleep(15 * time.Second)
			if reason == "lease-over" {
				m.net.Thaw()
			}
			want := 1
			if reason == "" {
				want = 0
			}
			if text := log.String(); strings.Count(text, "level=WARN msg=work-stopped") != want ||
				reason != "" && !strings.Contains(text, "reason="+reason) ||
				strings.Contains(text, "was-suspended") {
				t.Errorf("%q: %s", reason, text)
			}
		})
	}
}
