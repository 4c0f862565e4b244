package leader

import (
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
)

// What of that counts no more, and how an item comes out of quarantine.

// forget deletes notes that count no more, but for those of items that fail anew: they are written
// over, and which of two transactions comes first nobody knows. An item that was quarantined because
// no other member took it is tried at one that takes it now.
func (s *snapshot) forget(d *draft, sorted *sorted, fail map[string]bool) {
	var loads, pinned []uint64
	for item, n := range s.notes {
		order, _ := s.control.RestartItems.Get(item)
		_, wanted := s.index[item]
		w, _ := s.workload.Get(item)
		switch expires := n.Expires(); {
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
			if n.Why != protocol.QuarantineNowhere {
				continue
			}
			if loads == nil {
				loads, pinned = sorted.loads(), sorted.pinned()
			}
			s.retry(d, sorted, item, n, loads, pinned)
		case !s.now.Before(expires):
			d.units = append(d.units, s.build.forget(item, "expired", n.Quarantine))
		default:
			d.later = actor.Earliest(d.later, expires)
		}
	}
}

// retry has a quarantined item tried at a member that takes it, of another id than those at which
// its work has failed: the one that it is pinned to, if it is pinned. Where the host of a member was
// to blame, that member is asked again when this counts no more.
func (s *snapshot) retry(d *draft, sorted *sorted, id string, n note, loads, pinned []uint64) {
	var not []protocol.FailedOwner // under their sessions of now
	exclude := func(member string) {
		m, _ := s.members.Get(member)
		not = append(not, protocol.FailedOwner{Member: member, Session: m.Session})
	}
	for _, f := range n.Failed {
		if counts := s.now.Before(f.Until()); f.Hosts && counts {
			d.later = actor.Earliest(d.later, f.Until())
			exclude(f.Member)
		} else if !f.Hosts {
			exclude(f.Member)
		}
	}
	room := loads
	only, isPinned := s.control.Pins.Get(id)
	if isPinned {
		room = pinned // what is not pinned there makes room
		for member := range s.members.IDs() {
			if member != only {
				exclude(member)
			}
		}
	}
	w, _ := s.workload.Get(id)
	item := placement.Item{ID: id, Weight: w.Weight}
	switch to := s.elsewhere(sorted, item, not, room); {
	case to == placement.None:
	case !s.place:
		d.waiting = true
	default:
		loads[to.Member()] += weight(item)
		if isPinned {
			pinned[to.Member()] += weight(item)
		}
		n.Since, n.Why, n.Orders = 0, "", s.control.Index
		d.units = append(d.units, s.build.retry(id, n.Quarantine))
	}
}
