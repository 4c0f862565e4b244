package leader

import (
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// passOn tells owners of orders to restart, and of changes of their items in the workload if they
// ask for it. Both are about what was granted, and whose owner was registered, before: what has
// been started since needs neither. What is to move later, when the soak is over or there is room
// in the budget, is started once more before. So is an item that was removed and added again while
// its owner had it, if that says that its work fails: it may say so of the earlier one.
func (s *snapshot) passOn(d *draft, sorted *sorted, moving []bool) {
	tells := false
	for _, m := range s.members.All() {
		tells = tells || m.TellChanges
	}
	if !tells && s.control.RestartItems.Len()+s.control.RestartMembers.Len() == 0 &&
		len(s.failing) == 0 {
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
		w, _ := s.workload.Get(item.ID)
		made := uint64(0)
		if _, fails := s.reported(item.ID, ref, m); fails {
			made = w.CreateIndex
		}
		switch given := max(byItem, byMember, made); {
		case m.Leaving:
		case due(given, ref.Assignment, m):
			d.units = append(d.units, s.build.again(item.ID, ref.member, ref.Assignment, given))
		case m.TellChanges && w.ModifyIndex > ref.Changed && due(w.ModifyIndex, ref.Assignment, m):
			d.units = append(d.units, s.build.tell(item.ID, ref.member, ref.Assignment,
				w.ModifyIndex))
		}
	}
}

// restartedBy says who gave the order that o passes on; empty: that is not known.
func restartedBy(c messages.Control, o order) string {
	if index, _ := c.RestartItems.Get(o.item); index == o.restart {
		return given(c, protocol.RestartItemOrder(o.item))
	}
	if index, _ := c.RestartMembers.Get(o.from); index == o.restart {
		return given(c, protocol.RestartMemberOrder(o.from))
	}
	return ""
}

// due tells whether an order to restart is about what was granted, and not passed on yet. What has
// changed before an order that was passed on needs no word: the payload is read after that.
func due(given uint64, a messages.Assignment, m messages.Member) bool {
	return given > max(a.CreateIndex, a.Restart, m.CreateIndex)
}
