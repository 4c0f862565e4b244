package main

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

func TestTheWatchdogIsFedByTheLeaseOrByHonestWaiting(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	lease := facts.Lease{Start: now.Add(-time.Second), TTL: 10 * time.Second}
	over := facts.Lease{Start: now.Add(-time.Minute), TTL: 10 * time.Second}
	in := facts.Membership{Phase: facts.Registered, Session: "s"}
	for name, c := range map[string]struct {
		condition
		alive, registered bool
		line              string
	}{
		"runs": {condition{id: "n1", session: facts.Session{ID: "s", Lease: lease},
			membership: in, running: 2, leadership: facts.Leadership{Leader: "n2"}}, true, true,
			"2 items run; n2 leads"},
		"leads": {condition{id: "n1", session: facts.Session{ID: "s", Lease: lease},
			membership: in, running: 1, leadership: facts.Leadership{Leader: "n1"}}, true, true,
			"1 item runs; leads"},
		"nobody leads": {condition{id: "n1", session: facts.Session{ID: "s", Lease: lease},
			membership: in}, true, true, "0 items run"},
		"hangs, and the lease still holds": {condition{id: "n1", session: facts.Session{ID: "s",
			Lease: lease}, membership: in, stuck: "coordinator/x"}, true, true, "0 items run"},
		"waits for its record": {condition{session: facts.Session{ID: "s", Lease: lease}}, true,
			false, "waits for its record in Consul: no item runs"},
		"waits for a first session": {condition{}, true, false, "waits for Consul: no item runs"},
		"waits for Consul": {condition{session: facts.Session{ID: "s", Lease: over},
			membership: in}, true, false,
			"waits for Consul: its lease is over, and no item runs"},
		"hangs without a lease": {condition{session: facts.Session{ID: "s", Lease: over},
			membership: in, stuck: "coordinator/x"}, false, false,
			"coordinator/x hangs: its lease is over, and no item runs"},
	} {
		if got := c.condition.alive(now); got != c.alive {
			t.Errorf("%s: the watchdog is fed: %v", name, got)
		}
		if got := c.condition.registered(now); got != c.registered {
			t.Errorf("%s: registered: %v", name, got)
		}
		if got := c.condition.line(now); got != c.line {
			t.Errorf("%s: %q, want %q", name, got, c.line)
		}
	}
}
