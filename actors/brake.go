package actors

import (
	"fmt"
	"time"
)

// The brake: when most of the workload, or most of the members, vanish in one
// step, that is more often a Consul that came back empty, a deleted prefix or a
// split than somebody's wish. The leader then writes nothing and says so. What
// "most" is measured against is the ledger, which is there for every new leader too.
const (
	brakeItems   = 10 // this many items may always go at once
	brakeMembers = 3  // and this many members
)

// brake says what speaks against obeying this scene; nothing: the empty string.
// A workload's brake holds until the items are back or an operator says obey.
// The members' also lets go by itself after the hold: their items have no owner meanwhile.
func (s *scene) brake(sorted *sorted, d *draft) string {
	if s.obeyed {
		return ""
	}
	// Once it is on it holds until few are missing and nothing changes any more:
	// items that are put back one by one must not lose the rest halfway.
	if n := len(sorted.removed); n > brakeItems && (s.braked || 2*n > sorted.keyed) || n > 0 && s.braked && !s.balance {
		d.waiting = d.waiting || !s.balance
		return fmt.Sprintf("%d of %d assigned items are gone from the workload: put them back (coordd work import), or say that it is meant (coordd control obey)", n, sorted.keyed)
	}
	if n := sorted.lost; n > brakeMembers && (s.braked || 2*n > sorted.holders) {
		if until := sorted.lostAt.Add(s.hold); sorted.lostAt.IsZero() || s.now.Before(until) {
			if !sorted.lostAt.IsZero() {
				d.wake = earliest(d.wake, until)
			}
			return fmt.Sprintf("%d of %d members with work have vanished: their items wait for them for %v, or until an operator says that it is meant (coordd control obey)", n, sorted.holders, s.hold.Round(time.Second))
		}
	}
	return ""
}
