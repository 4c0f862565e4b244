package leader

import (
	"testing"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/messages"
)

// A registration changes the record and the ack. The watch of acks may be the first to wake the
// assigner, which then finds the new member in the state, too.
func TestWhatTheSnapshotHoldsIsSoakedWhoeverWokeTheAssigner(t *testing.T) {
	v := newViews()
	a := v.assigner(t, actor.Settings{LeaderSoak: 5 * time.Second, Merge: time.Second}, nil)
	a.assigned, a.build = newAssignmentCache(), newUnitBuilder(a.Keys)
	calm := func() {
		t.Helper()
		a.snapshot(time.Now())
		a.quiet, a.first = time.Now().Add(-time.Minute), time.Time{}
		if s := a.snapshot(time.Now()); !s.balance || !s.place {
			t.Error("nothing has changed, and it is not quiet")
		}
	}
	calm()
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"a member", func() { v.members.Set(messages.Members{Index: 2}) }},
		{"an item", func() { v.workload.Set(oneItem(2, "b", messages.WorkItem{Weight: 1})) }},
		{"a weight", func() { v.workload.Set(oneItem(3, "b", messages.WorkItem{Weight: 2})) }},
		{"an order", func() { v.control.Set(messages.Control{Index: 2, Freeze: true}) }},
	} {
		change.do()
		if s := a.snapshot(time.Now()); s.balance || s.place {
			t.Errorf("%s has just changed, and is planned upon without a soak", change.what)
		}
		calm()
	} // A payload, and an order to restart, say nothing of where items are to be.
	v.workload.Set(oneItem(4, "b", messages.WorkItem{Weight: 2, ModifyIndex: 4}))
	v.control.Set(messages.Control{Index: 3, Freeze: true,
		RestartItems: messages.TableOf(map[string]uint64{"b": 3})})
	if s := a.snapshot(time.Now()); !s.balance || !s.place {
		t.Error("a payload and an order to restart are soaked")
	}
}

// oneItem is a workload of one item.
func oneItem(index uint64, id string, w messages.WorkItem) messages.Workload {
	return messages.Workload{Index: index,
		Items: messages.TableOf(map[string]messages.WorkItem{id: w})}
}
