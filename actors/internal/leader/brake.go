package leader

import (
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
)

// The brake: when most of the workload, or most of the members, vanish in one
// step, that is more often a Consul that came back empty, a deleted prefix or a
// split than somebody's wish. The leader then writes nothing and says so. What
// "most" is measured against is the assignment cache, which is there for every new leader too.
//
// In one step is within 4 x Merge: so a loop that deletes one item after the other is one. For that
// the leader remembers how large the workload was; what vanishes more slowly is taken for
// somebody's wish.
const (
	brakeItems   = 10 // this many items may always go at once
	brakeMembers = 3  // and this many members
)

// brakeCause says why a brake is on.
type brakeCause uint8

const (
	brakeOff brakeCause = iota
	brakeForItems
	brakeForMembers
)

// brake returns the reason to write nothing, or the empty string if there is none.
// A workload's brake holds until the items are back or an operator overrides it.
// The members' also lets go by itself after the hold: their items have no owner meanwhile.
func (s *snapshot) brake(sorted *sorted, d *draft) (string, brakeCause) {
	removed := len(sorted.removed) - len(d.overridden.items)
	keyed := sorted.keyed - len(d.overridden.items)
	// Once it is on it holds until few are missing and nothing changes any more:
	// items that are put back one by one must not lose the rest halfway.
	on := s.braked == brakeForItems
	if n := removed; n > brakeItems && (on || 2*n > keyed) || n > 0 && on && !s.balance {
		d.waiting = d.waiting || !s.balance
		return fmt.Sprintf("%d of %d assigned items are gone from the workload: put them back "+
			"(coordd work import), or say that it is meant (coordd override)",
			n, keyed), brakeForItems
	}
	if gone := s.peak - s.workload.Len(); removed > 0 && gone > brakeItems && 2*gone > s.peak {
		return fmt.Sprintf("%d of %d items have gone from the workload in quick succession: put "+
			"them back (coordd work import), or say that it is meant (coordd override)",
			gone, s.peak), brakeForItems
	}
	holders := sorted.holders - len(d.overridden.members)
	n, last := 0, time.Time{} // last is when the last of them was confirmed, or looked at first
	for _, id := range sorted.lost {
		away := s.absent[id]
		if d.overridden.members[id] || s.lasting(away) {
			continue // one that cannot be confirmed holds up nothing but its own items
		}
		n++
		if last = actor.Latest(last, away.since); away.since.IsZero() {
			last = actor.Latest(last, away.asked)
		}
	}
	if n > brakeMembers && (s.braked != brakeOff || 2*n > holders) {
		if until := last.Add(s.hold); last.IsZero() || s.now.Before(until) {
			if !last.IsZero() {
				d.wake = actor.Earliest(d.wake, until)
			}
			return fmt.Sprintf("%d of %d members with work have vanished: their items wait for "+
				"them for %v, or until an operator says that it is meant (coordd override)",
				n, holders, s.hold.Round(time.Second)), brakeForMembers
		}
	}
	return "", brakeOff
}

// overridden is what an operator has released from the brake: items that are gone from the
// workload, by place of the key, and members that have vanished. It stays until all of it has been
// done. What goes meanwhile is not part of it.
type overridden struct {
	items   map[string]bool
	members map[string]bool
}

// still keeps what is still gone. If all is set, an override is there now: it takes in all that is
// gone.
func (o overridden) still(sorted *sorted, all bool) overridden {
	next := overridden{map[string]bool{}, map[string]bool{}}
	for _, ref := range sorted.removed {
		if key := ref.member + "/" + ref.item; all || o.items[key] {
			next.items[key] = true
		}
	}
	for _, id := range sorted.lost {
		if all || o.members[id] {
			next.members[id] = true
		}
	}
	return next
}

// sizes remembers how large the workload was.
type sizes struct {
	now  int
	past []pastSize
}

// pastSize is a size that the workload had until a moment.
type pastSize struct {
	until time.Time
	n     int
}

// see takes in the size of the workload at now and returns the largest that it had since the moment
// from. With keep nothing is forgotten: a brake is measured against what there was when it came on.
func (p *sizes) see(now, from time.Time, n int, keep bool) int {
	if n != p.now {
		p.past = append(p.past, pastSize{now, p.now})
		p.now = n
	}
	if !keep {
		p.past = slices.DeleteFunc(p.past, func(x pastSize) bool { return x.until.Before(from) })
	}
	for _, x := range p.past {
		n = max(n, x.n)
	}
	return n
}

// forget makes the size of now the largest there was.
func (p *sizes) forget() { p.past = nil }
