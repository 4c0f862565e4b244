package leader

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Items whose work fails too often: their member says so, and gives the item up. It is tried at one
// other member. After failures at two members, or where there is no other, it is quarantined:
// nobody runs it until an operator says so, or a member of a new id registers.

// failures are what is known of work that fails.
type failures struct {
	notes   map[string]note     // by item: what the leader has noted in Consul
	reports map[string][]report // by member: what it says of its work now
}

// note is what is noted of an item whose work has failed, and the index of the key.
type note struct {
	protocol.Quarantine
	index uint64
}

// report is what a member says of the work of an item that has failed too often.
type report struct {
	session string // of the member
	protocol.WorkReport
}

func newFailures() failures { return failures{map[string]note{}, map[string][]report{}} }

// load takes in all notes.
func (f failures) load(keys protocol.Keys, entries []store.Entry, skip func(store.Entry, string)) {
	clear(f.notes)
	for e, q := range protocol.Read(entries, keys.ReadQuarantine, skip) {
		f.notes[q.Item] = note{q.Quarantine, e.ModifyIndex}
	}
}

// dropEnded drops the notes that count no more.
func (f failures) dropEnded(in *inputs) {
	maps.DeleteFunc(f.notes, func(item string, _ note) bool {
		byOrder, madeAnew := in.ended(item)
		return byOrder || madeAnew
	})
}

// say takes in what a member says of its work.
func (f failures) say(member string, w protocol.WorkSummary) {
	delete(f.reports, member)
	for _, r := range w.Items {
		if r.Over {
			f.reports[member] = append(f.reports[member], report{w.Session, r})
		}
	}
}

// applied takes in an order that was carried out with that index.
func (f failures) applied(o *order, index uint64) {
	switch {
	case o.kind == orderForget:
		delete(f.notes, o.item)
	case o.note != nil:
		f.notes[o.item] = note{*o.note, index}
	}
}

// of returns the report about what a member has of an item now.
func (f failures) of(item string, ref keyRef, m facts.Member) (report, bool) {
	for _, r := range f.reports[ref.member] {
		if r.ID == item && r.session == m.Session && r.Again == ref.Restart &&
			r.Grant == max(ref.CreateIndex, m.CreateIndex) {
			return r, true
		}
	}
	return report{}, false
}

// barred tells whether an item is quarantined: no member of a new id takes items. An operator's
// order ends it, too; but the item is given to nobody before its note is gone.
func (in *inputs) barred(b *board, item string) bool {
	n := in.failures.notes[item]
	if n.Since == 0 {
		return false
	}
	return len(n.Here) == 0 || !slices.ContainsFunc(b.members, func(m placement.Member) bool {
		return !m.Drain && !slices.Contains(n.Here, m.ID) && !slices.Contains(n.Members(), m.ID)
	})
}

// leavesQuarantine is the note to write when a quarantined item is given to somebody; nil: none.
func (in *inputs) leavesQuarantine(item string) *protocol.Quarantine {
	n := in.failures.notes[item]
	if n.Since == 0 {
		return nil
	}
	n.Since, n.Here, n.Orders = 0, nil, in.control.Index
	return &n.Quarantine
}

// ended tells whether an order has ended what a note says, or the item was removed since, and made
// anew.
func (in *inputs) ended(item string) (byOrder, madeAnew bool) {
	n := in.failures.notes[item]
	order, _ := in.control.RestartItems.Get(item)
	w, _ := in.workload.Get(item)
	return n.EndedBy(order, n.index), n.OfEarlier(w.CreateIndex, n.index)
}

// countingFailures are the failures of an item that count now.
func (in *inputs) countingFailures(item string) []protocol.FailedOwner {
	byOrder, madeAnew := in.ended(item)
	if byOrder || madeAnew {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.failures.notes[item].Failed),
		func(f protocol.FailedOwner) bool { return !in.now.Before(f.Until()) })
}

// failedAt tells whether an item has failed at a member: a quarantined one for good, another one
// under the session of now, for the member may have been mended.
func (in *inputs) failedAt(item, member string, failed []protocol.FailedOwner) bool {
	m, _ := in.members.Get(member)
	barred := in.failures.notes[item].Since != 0
	return slices.ContainsFunc(failed, func(f protocol.FailedOwner) bool {
		return f.Member == member && (barred || f.Session == m.Session)
	})
}

// takeFailing revokes the items that their owners say fail too often, and returns them.
func (in *inputs) takeFailing(p *plan, b *board) map[string]bool {
	failed := map[string]bool{}
	if len(in.failures.reports) == 0 {
		return failed
	}
	for i := range b.items {
		item, ref := &b.items[i], b.keys[i]
		if item.Owner == placement.None || item.Leaving {
			continue
		}
		m, _ := in.members.Get(ref.member)
		r, fails := in.failures.of(item.ID, ref, m)
		if !fails || m.Leaving || in.restarts(item.ID, ref, m) {
			continue // what is to be started anew first is judged by what comes then
		}
		note, quarantined := in.noteOf(b, item, ref, r)
		why := reasonFailing
		if quarantined {
			why = reasonQuarantined
		}
		item.Pin, item.Leaving, failed[item.ID] = placement.None, true, true
		p.orders = append(p.orders, order{kind: orderRevoke, item: item.ID, from: ref.member,
			key: ref.Assignment, reason: why, note: &note})
	}
	return failed
}

// noteOf is what is to be noted of an item that fails at its owner, and whether that quarantines
// it.
func (in *inputs) noteOf(b *board, item *placement.Item, ref keyRef, r report) (
	n protocol.Quarantine, quarantined bool) {
	w, _ := in.workload.Get(item.ID)
	n = protocol.Quarantine{Orders: in.control.Index, Made: w.CreateIndex}
	again := false
	for _, f := range in.countingFailures(item.ID) {
		if f.Member != ref.member {
			n.Failed = append(n.Failed, f)
		} else if f.Session == r.session {
			again = true // it came back, for nobody else had room
		}
	}
	n.Failed = append(n.Failed, protocol.FailedOwner{Member: ref.member, Session: r.session,
		At: in.now.UnixMilli(), Exit: r.Exit})
	if len(n.Failed) < protocol.MaxOwners && !again && in.another(b, item, n.Failed) {
		return n, false
	}
	if n.Since = max(1, in.now.UnixMilli()); len(b.members) <= protocol.MaxHere {
		n.Here = slices.Collect(in.members.IDs())
	}
	return n, true
}

// another tells whether an item that has failed may be tried at another member: at the one that an
// operator has pinned it to, if so.
func (in *inputs) another(b *board, item *placement.Item, failed []protocol.FailedOwner) bool {
	pin, pinned := in.control.Pins.Get(item.ID)
	return slices.ContainsFunc(b.members, func(m placement.Member) bool {
		return !m.Drain && (!pinned || m.ID == pin) && !in.failedAt(item.ID, m.ID, failed)
	})
}

// elsewhere is the member with the least load that takes an item and at which it has not failed:
// one with room, if there is any. For a pinned item it is its pin.
func (in *inputs) elsewhere(b *board, item placement.Item, failed []protocol.FailedOwner,
	loads []uint64) placement.Place {
	if in.control.Pins.Has(item.ID) {
		return item.Pin
	}
	best, bestFits := placement.None, false
	for j, m := range b.members {
		if m.Drain || in.failedAt(item.ID, m.ID, failed) {
			continue
		}
		ok := fits(m, loads[j], weight(item))
		if best == placement.None || ok && !bestFits ||
			ok == bestFits && loads[j] < loads[best.Member()] {
			best, bestFits = placement.At(j), ok
		}
	}
	return best
}

// avoidWhereItFailed pins items whose work has failed, for the planner: to where they run now, if
// they have not failed there, or else to a member at which they have not failed. Operators' pins and
// wishes go before.
func (in *inputs) avoidWhereItFailed(b *board) {
	if len(in.failures.notes) == 0 {
		return
	}
	pinned, loads := b.pinned(), b.loads()
	for i := range b.items {
		item := &b.items[i]
		if _, noted := in.failures.notes[item.ID]; !noted || item.Pin != placement.None {
			continue
		}
		counting := in.countingFailures(item.ID)
		failed := slices.DeleteFunc(counting, func(f protocol.FailedOwner) bool {
			return !in.failedAt(item.ID, f.Member, []protocol.FailedOwner{f})
		})
		if len(failed) == 0 {
			continue // those members are gone, or were registered anew
		}
		if j := item.Owner.Member(); item.Owner != placement.None &&
			fits(b.members[j], pinned[j], weight(*item)) &&
			!in.failedAt(item.ID, b.members[j].ID, failed) {
			pinned[j] += weight(*item)
			item.Pin = item.Owner
		} else if item.Pin = in.elsewhere(b, *item, failed, loads); item.Pin != placement.None {
			loads[item.Pin.Member()] += weight(*item)
			b.wishes = append(b.wishes, i)
		}
	}
}

// forget deletes notes that count no more, but for those of items that fail anew: they are written
// over, and which of two transactions comes first nobody knows.
func (in *inputs) forget(p *plan, failed map[string]bool) {
	for item, n := range in.failures.notes {
		_, wanted := in.index[item]
		byOrder, madeAnew := in.ended(item)
		fresh := in.countingFailures(item)
		why, over := reason(""), true // an order needs none
		switch {
		case failed[item]:
			continue
		case byOrder:
		case madeAnew:
			why = reasonRemoved
		case !wanted:
			p.waiting = p.waiting || !in.place
			why, over = reasonRemoved, in.place
		default:
			why, over = reasonExpired, n.Since == 0 && len(fresh) == 0
		}
		if over {
			p.orders = append(p.orders, order{kind: orderForget, item: item, reason: why,
				note: &n.Quarantine})
		}
		for _, f := range fresh { // one less may be a place more
			p.later = actor.Earliest(p.later, f.Until())
		}
	}
}
