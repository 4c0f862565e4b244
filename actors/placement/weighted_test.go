package placement_test

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// settled draws members and items of different weights and lets a first plan place them.
func settled(d testkit.Dice) input {
	s := shape{maxMembers: 8, maxItems: 60, weighted: true}
	in := s.draw(d)
	return in.carryOut(in.plan())
}

func TestWeightedSpreadIsAtMostTheHeaviestItem(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := settled(d)
		var heaviest uint64
		for _, it := range in.items {
			heaviest = max(heaviest, weight(it))
		}
		if loads := in.held(); slices.Max(loads)-slices.Min(loads) > heaviest {
			t.Fatalf("loads %v, heaviest item %d", loads, heaviest)
		}
	})
}

func TestWeightedLeaveMovesOnlyTheOrphans(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := settled(d)
		if len(in.members) == 1 {
			return
		}
		in = in.without(d.IntN(len(in.members)))
		for _, mv := range in.plan().Moves {
			if mv.From != none {
				t.Fatalf("%+v", mv)
			}
		}
	})
}

func TestWeightedJoinMovesOnlyToTheJoiner(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := settled(d)
		j := d.IntN(len(in.members) + 1)
		for _, mv := range in.joinedBy(j).plan().Moves {
			if mv.To != at(j) {
				t.Fatalf("%+v, the joiner is %d", mv, j)
			}
		}
	})
}

func TestBalanceMovesShrinkTheSpread(t *testing.T) {
	s := shape{maxMembers: 8, maxItems: 60, weighted: true, capacities: true}
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := s.draw(d)
		for j := range in.members {
			if c := &in.members[j].Capacity; *c > 0 {
				*c = max(*c, in.held()[j]) // nothing has to move
			}
		}
		squares := func(loads []uint64) (sum uint64) {
			for _, l := range loads {
				sum += l * l
			}
			return sum
		}
		p := in.plan()
		before, after := squares(in.held()), squares(p.Loads)
		if len(p.Moves) > 0 && after >= before {
			t.Fatalf("%d moves, loads %v become %v", len(p.Moves), in.held(), p.Loads)
		}
	})
}

// TestBalanceMakesRoomForWhatFoundNone: the free item of 7 fits nowhere until a has given an item
// of 6 to b.
func TestBalanceMakesRoomForWhatFoundNone(t *testing.T) {
	in := input{
		[]placement.Member{{ID: "a", Capacity: 20}, {ID: "b", Capacity: 10}},
		[]placement.Item{
			{Weight: 6, Owner: at(0)}, {Weight: 6, Owner: at(0)},
			{Weight: 6, Owner: at(0)},
			{Weight: 4, Owner: at(1)}, {Weight: 7},
		},
	}
	p := in.plan()
	if len(p.Moves) != 2 || len(p.Unplaced) != 0 || !slices.Equal(p.Loads, []uint64{19, 10}) {
		t.Errorf("%+v", p)
	}
}

func TestOneGiantDoesNotStopTheOthersFromBeingShared(t *testing.T) {
	in := fresh(4, 301)
	for i := range in.items {
		in.items[i].Weight = uint64(1 + i%3)
		in.items[i].Owner = at(i % 3)
	}
	in.items[0].Weight = 1_000_000
	p := in.plan()
	// The giant's owner holds 99 besides; the 500 of the others are to be shared by three.
	for j, load := range p.Loads[1:] {
		if load < 160 || load > 173 {
			t.Errorf("loads %v: member %d should hold about 166", p.Loads, j+1)
		}
	}
}
