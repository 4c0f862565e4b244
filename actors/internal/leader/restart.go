package leader

import (
	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
)

// passOn tells owners of orders to restart, and of changes of their items in the workload if they
// ask for it. Both are about what was granted, and whose owner was registered, before: what has
// been started since needs neither. What is to move later, when the soak is over or there is room
// in the budget, is started once more before.
func (in *inputs) passOn(p *plan, b *board, moving map[int32]bool) {
	tells := false
	for _, m := range in.members.All() {
		tells = tells || m.TellChanges
	}
	if !tells && in.control.RestartItems.Len()+in.control.RestartMembers.Len() == 0 {
		return
	}
	for i, item := range b.items {
		ref := b.keys[i]
		m, _ := in.members.Get(ref.member)
		if item.Owner == placement.None || item.Leaving || moving[int32(i)] || m.Leaving {
			continue
		}
		w, _ := in.workload.Get(item.ID)
		o := order{item: item.ID, from: ref.member, key: ref.Assignment}
		switch {
		case in.restarts(item.ID, ref, m):
			o.kind, o.reason = orderRestart, reasonRestart
			o.passed = in.restart(item.ID, ref.member)
		case m.TellChanges && w.ModifyIndex > ref.Changed && due(w.ModifyIndex, ref.Assignment, m):
			o.kind, o.reason, o.passed = orderTell, reasonChanged, w.ModifyIndex
		default:
			continue
		}
		p.orders = append(p.orders, o)
	}
}

// restart is the last order to restart that is about an item at a member.
func (in *inputs) restart(item, member string) uint64 {
	byItem, _ := in.control.RestartItems.Get(item)
	byMember, _ := in.control.RestartMembers.Get(member)
	return max(byItem, byMember)
}

// restarts tells whether an item is to be started once more where it is.
func (in *inputs) restarts(item string, ref keyRef, m facts.Member) bool {
	return due(in.restart(item, ref.member), ref.Assignment, m)
}

// restartedBy says who gave the order that o passes on; empty: that is not known.
func restartedBy(c facts.Control, o *order) string {
	if index, _ := c.RestartItems.Get(o.item); index == o.passed {
		return given(c, protocol.RestartItemOrder(o.item))
	}
	if index, _ := c.RestartMembers.Get(o.from); index == o.passed {
		return given(c, protocol.RestartMemberOrder(o.from))
	}
	return ""
}

// due tells whether an order to restart is about what was granted, and not passed on yet. What has
// changed before an order that was passed on needs no word: the payload is read after that.
func due(given uint64, a facts.Assignment, m facts.Member) bool {
	return given > max(a.CreateIndex, a.Restart, m.CreateIndex)
}
