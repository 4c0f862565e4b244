package leader

import (
	"slices"
	"time"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// Items whose work fails too often: a member says so, the leader tries the item at one other
// member, and quarantines it where that fails too. See docs/design.md, section 5c.

// The reasons of revocations for that.
const (
	reasonFailing     = "failing"     // it is tried elsewhere
	reasonQuarantined = "quarantined" // nobody is to run it
	reasonElsewhere   = "elsewhere"   // it is not any more: another member takes it
)

// note is what the leader has noted of an item whose work has failed, and the index of the key.
type note struct {
	protocol.Quarantine
	index uint64
}

// report is what a member says of the work of an item that has failed too often.
type report struct {
	session string // of the member
	protocol.WorkReport
}

// barred tells whether an item is quarantined. An order to restart that is younger ends it; but the
// item is given to nobody before its key is gone.
func (s *snapshot) barred(item string) bool {
	return s.notes[item].Since != 0
}

// ofEarlier tells whether a note is about an earlier item of the name than the one that there is.
func (n note) ofEarlier(w messages.WorkItem) bool {
	return n.OfEarlier(w.CreateIndex, n.index)
}

// fresh are the failures that count at now; a leader whose clock is behind counts them for longer.
func (n note) fresh(now time.Time) []protocol.FailedOwner {
	return slices.DeleteFunc(slices.Clone(n.Failed), func(f protocol.FailedOwner) bool {
		return !now.Before(f.Until())
	})
}

// standing are the failures of an item that count at now, and that no order has ended, nor that the
// item was made anew.
func (s *snapshot) standing(item string) []protocol.FailedOwner {
	n := s.notes[item]
	order, _ := s.control.RestartItems.Get(item)
	w, _ := s.workload.Get(item)
	if n.EndedBy(order, n.index) || n.ofEarlier(w) {
		return nil
	}
	return n.fresh(s.now)
}

// fail revokes the items that their owners say fail too often, and returns them.
func (s *snapshot) fail(d *draft, sorted *sorted) (fail map[string]bool) {
	if len(s.failing) == 0 {
		return nil
	}
	fail = map[string]bool{}
	for _, pinned := range []bool{true, false} { // what is pinned has its room before all others
		loads := sorted.loads()
		for i := range sorted.items {
			item := &sorted.items[i]
			r, ok := s.fails(item, sorted.keys[i])
			if ok && s.control.Pins.Has(item.ID) == pinned && s.takeAway(d, sorted, i, r, loads) {
				fail[item.ID] = true
			}
		}
	}
	return fail
}

// takeAway revokes an item whose work fails too often, unless its host is at fault and no other
// member takes it.
func (s *snapshot) takeAway(d *draft, sorted *sorted, i int, r report, loads []uint64) bool {
	item, ref := &sorted.items[i], sorted.keys[i]
	w, _ := s.workload.Get(item.ID)
	note := protocol.Quarantine{Orders: s.control.Index, Made: w.CreateIndex}
	for _, f := range s.standing(item.ID) {
		if f.Member != ref.member {
			note.Failed = append(note.Failed, f)
		}
	}
	note.Failed = append(note.Failed, protocol.FailedOwner{Member: ref.member,
		Session: r.session, At: s.now.UnixMilli(), Exit: r.Exit, Hosts: r.Hosts})
	own := 0 // failures of the work itself
	for _, f := range note.Failed {
		if !f.Hosts {
			own++
		}
	}
	pinned, wish := s.control.Pins.Has(item.ID), item.Pin.Member()
	wished := item.Pin != placement.None && item.Pin != item.Owner && wish < len(loads)
	if wished {
		loads[wish] -= weight(*item) // it goes to one place, and that may be this one
	}
	target := placement.None
	switch {
	case own >= protocol.MaxOwners:
	case !pinned:
		target = s.elsewhere(sorted, *item, note.Failed, loads)
	case s.pinTakes(sorted, *item, note.Failed):
		target = item.Pin
	}
	if target == placement.None && r.Hosts { // it may run here once its host has what it takes
		if wished {
			loads[wish] += weight(*item)
		}
		return false
	}
	if target == placement.None {
		note.Since, note.Why = max(1, s.now.UnixMilli()), protocol.QuarantineNowhere
		if own >= protocol.MaxOwners {
			note.Why = protocol.QuarantineOwners
		}
		item.Pin = placement.None // nothing makes room for it
	} else {
		item.Pin = target
		loads[target.Member()] += weight(*item)
	}
	item.Leaving = true
	d.units = append(d.units, s.build.fail(item.ID, ref.member, ref.Assignment, note))
	return true
}

// fails finds what the owner of an item says of its work, if that is about what the owner has now.
// What is to be started anew first is judged by what comes then.
func (s *snapshot) fails(item *placement.Item, ref keyRef) (report, bool) {
	if len(s.failing[ref.member]) == 0 || item.Owner == placement.None || item.Leaving {
		return report{}, false
	}
	m, _ := s.members.Get(ref.member)
	ordered, _ := s.control.RestartItems.Get(item.ID)
	all, _ := s.control.RestartMembers.Get(ref.member)
	w, _ := s.workload.Get(item.ID)
	if m.Leaving || due(max(ordered, all, w.CreateIndex), ref.Assignment, m) {
		return report{}, false
	}
	return s.reported(item.ID, ref, m)
}

// reported finds what a member says of the work of an item, if that is about what it has now.
func (s *snapshot) reported(item string, ref keyRef, m messages.Member) (report, bool) {
	for _, r := range s.failing[ref.member] {
		if r.ID == item && r.session == m.Session && r.Again == ref.Restart &&
			r.Token == max(ref.CreateIndex, m.CreateIndex) {
			return r, true
		}
	}
	return report{}, false
}

// stay keeps items whose work has failed elsewhere where they run: for the planner they are pinned
// there. An operator's pin goes before, and has the room first; a wish does not.
func (s *snapshot) stay(sorted *sorted) {
	s.keep(sorted, func(item *placement.Item) bool { return !s.control.Preferred.Has(item.ID) },
		func(int, []protocol.FailedOwner, []uint64) {})
}

// avoid keeps items whose work has failed at a member from that member: for the planner they are
// pinned to whoever has them, or to the one that gets them next. If displace is set that is one
// that is full of what can go elsewhere rather than one at which the work has failed.
func (s *snapshot) avoid(sorted *sorted, displace bool) {
	if len(s.notes) == 0 {
		return
	}
	loads := sorted.loads()
	s.keep(sorted, func(*placement.Item) bool { return true },
		func(i int, failed []protocol.FailedOwner, pinned []uint64) {
			item := &sorted.items[i]
			to := s.elsewhere(sorted, *item, failed, loads)
			if to == placement.None && displace {
				to = s.elsewhere(sorted, *item, failed, pinned)
				if to != placement.None {
					sorted.wishes = append(sorted.wishes, i)
				}
			}
			if item.Pin = to; to != placement.None {
				loads[to.Member()] += weight(*item)
				pinned[to.Member()] += weight(*item)
			}
		})
}

// keep pins those of the items in question that run at a member at which their work has not failed
// to that member, as long as it has room beside what is pinned there; others go elsewhere.
func (s *snapshot) keep(sorted *sorted, inQuestion func(*placement.Item) bool,
	elsewhere func(item int, failed []protocol.FailedOwner, pinned []uint64)) {
	if len(s.notes) == 0 {
		return
	}
	pinned := sorted.pinned()
	for i := range sorted.items {
		item := &sorted.items[i]
		n, noted := s.notes[item.ID]
		if !noted || item.Pin != placement.None || !inQuestion(item) {
			continue
		}
		failed := slices.DeleteFunc(n.fresh(s.now), func(f protocol.FailedOwner) bool {
			return !s.failedAt(f.Member, []protocol.FailedOwner{f})
		})
		if len(failed) == 0 {
			continue // those members are gone, or were registered anew
		}
		if j := item.Owner.Member(); item.Owner != placement.None {
			m := sorted.members[j]
			fits := m.Capacity == 0 || pinned[j]+weight(*item) <= m.Capacity
			if fits && !m.Drain && !s.failedAt(m.ID, failed) {
				pinned[j] += weight(*item)
				item.Pin = item.Owner
				continue
			}
		}
		elsewhere(i, failed, pinned)
	}
}

// failedAt tells whether the work has failed at a member that is registered as it was then.
func (s *snapshot) failedAt(member string, failed []protocol.FailedOwner) bool {
	m, _ := s.members.Get(member)
	return slices.ContainsFunc(failed, func(f protocol.FailedOwner) bool {
		return f.Member == member && f.Session == m.Session
	})
}

// elsewhere is the member with the least load that takes an item, of those at which its work has
// not failed; one where much has failed only if there is no other. None: there is none.
func (s *snapshot) elsewhere(sorted *sorted, item placement.Item, failed []protocol.FailedOwner,
	loads []uint64) placement.Place {
	best, bestSick := placement.None, false
	for j, m := range sorted.members {
		full := m.Capacity != 0 && loads[j]+weight(item) > m.Capacity
		if m.Drain || full || s.failedAt(m.ID, failed) {
			continue
		}
		sick := s.sick(sorted, m.ID)
		if best == placement.None || bestSick && !sick ||
			sick == bestSick && loads[j] < loads[best.Member()] {
			best, bestSick = placement.At(j), sick
		}
	}
	return best
}

// pinTakes tells whether an item that fails where it is has been pinned to another member since, at
// which its work has not failed, and which takes it: what is not pinned there makes room.
func (s *snapshot) pinTakes(sorted *sorted, item placement.Item,
	failed []protocol.FailedOwner) bool {
	j := item.Pin.Member()
	if item.Pin == item.Owner || j >= len(sorted.members) {
		return false
	}
	m := sorted.members[j]
	return !m.Drain && (m.Capacity == 0 || sorted.pinned()[j] <= m.Capacity) &&
		!s.failedAt(m.ID, failed)
}

// sick tells whether much has failed at a member that runs elsewhere.
func (s *snapshot) sick(sorted *sorted, member string) bool {
	if sorted.failures == nil {
		sorted.failures = map[string]int{}
		for _, note := range s.notes {
			for _, f := range note.Failed {
				m, _ := s.members.Get(f.Member)
				if note.FailsAt(f.Member, m.Session, s.now) {
					sorted.failures[f.Member]++
				}
			}
		}
	}
	return sorted.failures[member] >= protocol.SuspectAfter
}

// loads are the weights of what each member has, and of what is pinned there and still to come.
func (sorted *sorted) loads() []uint64 {
	loads := make([]uint64, len(sorted.members))
	for _, item := range sorted.items {
		if item.Owner != placement.None && !item.Leaving {
			loads[item.Owner.Member()] += weight(item)
		}
		if at := item.Pin.Member(); item.Pin != placement.None && item.Pin != item.Owner &&
			at < len(loads) {
			loads[at] += weight(item)
		}
	}
	return loads
}

// owned are the weights of what each member has.
func (sorted *sorted) owned() []uint64 {
	loads := make([]uint64, len(sorted.members))
	for _, item := range sorted.items {
		if item.Owner != placement.None {
			loads[item.Owner.Member()] += weight(item)
		}
	}
	return loads
}

// pinned are the weights of what must be at each member: also of what is pinned to one that is away
// or drained, and so stays where it is.
func (sorted *sorted) pinned() []uint64 {
	loads := make([]uint64, len(sorted.members))
	for _, item := range sorted.items {
		at := item.Pin.Member()
		if item.Pin != placement.None && (at >= len(loads) || sorted.members[at].Drain) {
			at = item.Owner.Member()
		}
		if item.Pin != placement.None && at >= 0 {
			loads[at] += weight(item)
		}
	}
	return loads
}

// mostReplans is how often wishes that cannot be had are left out one after the other: each time
// costs a plan.
const mostReplans = 4

// compute plans. Wishes leave no item without a place that has one without them: first those go
// unheeded whose own items have none, and then, if that helps, all.
func (s *snapshot) compute(sorted *sorted) placement.Plan {
	all := sorted.members
	p := s.computeLimited(sorted, all)
	for range mostReplans {
		if len(sorted.wishes) == 0 {
			return p
		}
		free := map[int]bool{}
		for _, i := range homeless(sorted, p) {
			free[i] = true
		}
		mine := func(i int) bool { return free[i] }
		if !slices.ContainsFunc(sorted.wishes, mine) {
			break
		}
		p = s.without(sorted, all, mine)
	}
	n := len(homeless(sorted, p))
	if n == 0 || len(sorted.wishes) == 0 {
		return p
	}
	items, chosen := slices.Clone(sorted.items), sorted.members
	q := s.without(sorted, all, func(int) bool { return true })
	if len(homeless(sorted, q)) < n {
		return q
	}
	sorted.items, sorted.members = items, chosen
	return p
}

// without plans without some of the wishes.
func (s *snapshot) without(sorted *sorted, all []placement.Member,
	unheeded func(item int) bool) placement.Plan {
	sorted.members = all
	sorted.wishes = slices.DeleteFunc(sorted.wishes, func(i int) bool {
		gone := unheeded(i)
		if gone {
			sorted.items[i].Pin = placement.None
		}
		return gone
	})
	s.avoid(sorted, false)
	return s.computeLimited(sorted, all)
}

// computeLimited plans. Members where much has failed keep what they have and get nothing more,
// unless an item would have no place then.
func (s *snapshot) computeLimited(sorted *sorted, all []placement.Member) placement.Plan {
	sorted.members = all
	limited := s.limited(sorted)
	if limited == nil {
		return placement.Compute(all, sorted.items)
	}
	p := placement.Compute(limited, sorted.items)
	if n := len(homeless(sorted, p)); n > 0 {
		if q := placement.Compute(all, sorted.items); len(homeless(sorted, q)) < n {
			return q
		}
	}
	sorted.members = limited
	return p
}

// homeless are the items that have no owner after a plan.
func homeless(sorted *sorted, p placement.Plan) (items []int) {
	for _, u := range p.Unplaced {
		if sorted.items[u.Item].Owner == placement.None {
			items = append(items, int(u.Item))
		}
	}
	for _, m := range p.Moves {
		if m.From != placement.None && m.To == placement.None {
			items = append(items, int(m.Item))
		}
	}
	return items
}

// limited are the members with those limited to what they have where much has failed; nil: there
// are none.
func (s *snapshot) limited(sorted *sorted) []placement.Member {
	var limited []placement.Member
	var loads []uint64
	for j, m := range sorted.members {
		if !s.sick(sorted, m.ID) {
			continue
		}
		if limited == nil {
			limited, loads = slices.Clone(sorted.members), sorted.loads()
		}
		switch {
		case loads[j] == 0:
			limited[j].Drain = true
		case m.Capacity == 0 || m.Capacity > loads[j]:
			limited[j].Capacity = loads[j]
		}
	}
	return limited
}

// weight is what the planner takes an item's for.
func weight(item placement.Item) uint64 {
	return min(max(item.Weight, 1), placement.MaxWeight)
}
