package leader

import (
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// restart passes orders to restart on to the owners. An order is about what was granted, and whose
// owner was registered, before it: what has been started since needs no restart. What is to move
// later, when the soak is over or there is room in the budget, is started once more before.
func (s *snapshot) restart(d *draft, sorted *sorted, moving []bool) {
	if s.control.RestartItems.Len()+s.control.RestartMembers.Len() == 0 {
		return
	}
	for i, item := range sorted.items {
		if item.Owner == placement.None || item.Leaving || moving[i] {
			continue
		}
		ref := sorted.keys[i]
		byItem, _ := s.control.RestartItems.Get(item.ID)
		byMember, _ := s.control.RestartMembers.Get(ref.member)
		m, _ := s.members.Get(ref.member)
		if given := max(byItem, byMember); due(given, ref.Assignment, m) && !m.Leaving {
			d.units = append(d.units, s.build.again(item.ID, ref.member, ref.Assignment, given))
		}
	}
}

// restartedBy says who gave the order that o passes on; empty: that is not known.
func restartedBy(c messages.Control, o order) string {
	if index, _ := c.RestartItems.Get(o.item); index == o.restart {
		return given(c, protocol.RestartItemOrder(o.item))
	}
	return given(c, protocol.RestartMemberOrder(o.from))
}

// due tells whether an order to restart is about what was granted, and not passed on yet.
func due(given uint64, a messages.Assignment, m messages.Member) bool {
	return given > max(a.CreateIndex, a.Restart, m.CreateIndex)
}
