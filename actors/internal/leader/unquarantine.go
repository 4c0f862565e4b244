package leader

import (
	"slices"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
)

// What of that counts no more, and how an item comes out of quarantine.

// forget deletes notes that count no more, but for those of items that fail anew: they are written
// over, and which of two transactions comes first nobody knows.
func (s *snapshot) forget(d *draft, fail map[string]bool) {
	for item, n := range s.notes {
		order, _ := s.control.RestartItems.Get(item)
		_, wanted := s.index[item]
		w, _ := s.workload.Get(item)
		counting := n.fresh(s.now)
		switch {
		case fail[item]:
		case n.EndedBy(order, n.index):
			d.units = append(d.units, s.build.forget(item, "", n.Quarantine))
		case n.ofEarlier(w): // removed, and added again since
			d.units = append(d.units, s.build.forget(item, "removed", n.Quarantine))
		case !wanted:
			if d.waiting = d.waiting || !s.place; s.place {
				d.units = append(d.units, s.build.forget(item, "removed", n.Quarantine))
			}
		case n.Since != 0:
		case len(counting) == 0:
			d.units = append(d.units, s.build.forget(item, "expired", n.Quarantine))
		}
		for _, f := range counting { // one less may be a place more
			d.later = actor.Earliest(d.later, f.Until())
		}
	}
}

// retry gives items that were quarantined because no other member took them to one that takes them
// once the plan is carried out, of another id than those at which their work has failed: to the one
// that they are pinned to, if they are. Where the host of a member was to blame, that member is
// asked again when this counts no more. An item that was only made free, and planned as others
// are, could come to where it has failed, and be quarantined again.
func (s *snapshot) retry(d *draft, sorted *sorted, all []placement.Member, planned []uint64) {
	limited := sorted.members
	sorted.members = all // also those where much has failed, if there is no other
	defer func() { sorted.members = limited }()
	var loads []uint64
	for _, id := range sorted.quarantined {
		n := s.notes[id]
		order, _ := s.control.RestartItems.Get(id)
		w, _ := s.workload.Get(id)
		if n.Why != protocol.QuarantineNowhere || n.EndedBy(order, n.index) || n.ofEarlier(w) {
			continue
		}
		if loads == nil {
			loads = slices.Clone(planned)
			pinned := sorted.pinned()
			for j, load := range sorted.owned() {
				loads[j] = max(loads[j], load, pinned[j])
			}
		}
		item, room := placement.Item{ID: id, Weight: w.Weight}, loads
		only, isPinned := s.control.Pins.Get(id)
		if isPinned {
			room = sorted.bound // what is not pinned there makes room
		}
		to := s.elsewhere(sorted, item, s.not(n, only), room)
		if to == placement.None {
			continue
		}
		if !s.place {
			d.waiting = true
			continue
		}
		loads[to.Member()] += weight(item)
		if isPinned {
			sorted.bound[to.Member()] += weight(item)
		}
		n.Since, n.Why, n.Orders = 0, "", s.control.Index
		member, m := s.members.At(to.Member())
		d.units = append(d.units, s.build.retry(id, member, m.Session, n.Quarantine))
	}
}

// not are the members, under their sessions of now, at which a quarantined item is not tried again;
// only is the one that it is pinned to, if it is.
func (s *snapshot) not(n note, only string) (not []protocol.FailedOwner) {
	exclude := func(member string) {
		m, _ := s.members.Get(member)
		not = append(not, protocol.FailedOwner{Member: member, Session: m.Session})
	}
	for _, f := range n.Failed {
		if !f.Hosts || s.now.Before(f.Until()) {
			exclude(f.Member)
		}
	}
	for member := range s.members.IDs() {
		if only != "" && member != only {
			exclude(member)
		}
	}
	return not
}
