package placement_test

import (
	"testing"

	"github.com/coordd/coordd/actors/placement"
)

// leavers returns the items that a plan makes leave an owner.
func leavers(p placement.Outcome) (items []int32) {
	for _, mv := range p.Moves {
		if mv.From != none {
			items = append(items, mv.Item)
		}
	}
	return items
}

func TestWhatIsLeavingIsTheFirstToGo(t *testing.T) {
	unlimited := []placement.Member{{ID: "a"}, {ID: "b"}}
	limited := []placement.Member{{ID: "a", Capacity: 10}, {ID: "b"}}
	for _, tt := range []struct {
		name    string
		members []placement.Member
		items   []placement.Item
		want    int32
	}{
		{"even: of one member", unlimited, []placement.Item{
			{Owner: at(0)}, {Owner: at(0)}, {Owner: at(0), Leaving: true}}, 2},
		{"even: of two members that both hold one more than their share",
			[]placement.Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}, []placement.Item{
				{Owner: at(0)}, {Owner: at(0), Leaving: true}, {Owner: at(1)},
				{Owner: at(1)}}, 1},
		{"weighted: for balance", unlimited, []placement.Item{
			{Weight: 5, Owner: at(0)}, {Weight: 3, Owner: at(0)},
			{Weight: 5, Owner: at(0), Leaving: true}}, 2},
		{"weighted: for a capacity", limited, []placement.Item{
			{Weight: 9, Owner: at(0)}, {Weight: 8, Owner: at(0), Leaving: true},
			{Weight: 9, Owner: at(1)}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := placement.Compute(tt.members, tt.items)
			if got := leavers(p); len(got) != 1 || got[0] != tt.want {
				t.Errorf("items %v leave, want %d: %+v", got, tt.want, p)
			}
		})
	}
}

// TestAChosenPinIsNotOvertaken: a has room for one of two items that are pinned to it. The first
// one was chosen; that the other, on a drained member, is free sooner must not change this.
func TestAChosenPinIsNotOvertaken(t *testing.T) {
	members := []placement.Member{{ID: "a", Capacity: 6}, {ID: "b"}, {ID: "c", Drain: true}}
	items := []placement.Item{{ID: "x", Weight: 5, Owner: at(1), Pin: at(0)},
		{ID: "y", Weight: 3, Owner: at(2), Pin: at(0)}}
	for _, owner := range []placement.Place{at(2), none} {
		items[1].Owner = owner
		p := placement.Compute(members, items)
		if p.Loads[0] != 5 || len(p.Unplaced) != 1 ||
			p.Unplaced[0] != (placement.Unplaced{Item: 1, Why: placement.WhyPinNoRoom}) {
			t.Errorf("with y on %d: %+v", owner, p)
		}
	}
}

func TestAPinnedItemWaitsWhereItIs(t *testing.T) {
	members := []placement.Member{{ID: "a", Drain: true}, {ID: "b"}, {ID: "c"}}
	items := []placement.Item{{ID: "x", Owner: at(1), Pin: at(0)},
		{ID: "y", Owner: at(1), Pin: at(3)}, {ID: "z", Owner: at(0), Pin: at(0)}}
	p := placement.Compute(members, items)
	if len(p.Moves) != 1 || p.Moves[0] != (placement.Move{Item: 2, From: at(0),
		Reason: placement.Drain}) {
		t.Errorf("only z, whose owner may not keep it, has to leave: %+v", p.Moves)
	}
	want := []string{placement.WhyPinDrained, placement.WhyPinAbsent, placement.WhyPinDrained}
	for k, u := range p.Unplaced {
		if u.Why != want[k] {
			t.Errorf("%s is in Unplaced because it is %s, want %s", items[u.Item].ID, u.Why,
				want[k])
		}
	}
	if len(p.Unplaced) != len(want) {
		t.Errorf("Unplaced: %+v", p.Unplaced)
	}
}
