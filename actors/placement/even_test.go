package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// fresh returns m empty members and n free items.
func fresh(m, n int) input {
	var in input
	for j := range m {
		in.members = append(in.members, placement.Member{ID: fmt.Sprintf("m%06d", j)})
	}
	for i := range n {
		in.items = append(in.items, placement.Item{ID: fmt.Sprintf("w%09d", i), Weight: 1})
	}
	return in
}

// without returns the input after member j is gone: its items are free, what is pinned to it is
// pinned to nobody who is here, the members behind it move up.
func (in input) without(j int) input {
	out := in.clone()
	out.members = slices.Delete(out.members, j, j+1)
	for i := range out.items {
		switch o := &out.items[i].Owner; {
		case o.Member() == j:
			*o = none
		case o.Member() > j:
			*o--
		}
		switch p := &out.items[i].Pin; {
		case p.Member() == j:
			*p = at(len(in.members))
		case p.Member() > j:
			*p--
		}
	}
	return out
}

// joinedBy returns the input with one more member, at index j.
func (in input) joinedBy(j int) input {
	out := in.clone()
	out.members = slices.Insert(out.members, j, placement.Member{ID: "joiner"})
	for i := range out.items {
		for _, p := range []*placement.Place{&out.items[i].Owner, &out.items[i].Pin} {
			if p.Member() >= j {
				*p++
			}
		}
	}
	return out
}

// In a rollout the share of each changes with their number, and so may what the newest keep; with
// different weights and capacities a joiner makes room for what did not fit.
func TestALeaveAndAJoinMoveNothingElseOutsideOfARollout(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 8, maxItems: 50, pins: d.Bool(),
			zones: d.Bool(), weighted: d.Bool()}
		s.capacities = !s.weighted && d.Bool()
		in := s.draw(d)
		in = in.carryOut(in.plan())
		j := d.IntN(len(in.members))
		for _, mv := range in.without(j).plan().Moves {
			if mv.From != none {
				t.Fatalf("member %d has gone: %+v", j, mv)
			}
		}
		for _, mv := range in.joinedBy(j).plan().Moves {
			if mv.From != none && mv.To.Member() != j {
				t.Fatalf("member %d has come: %+v", j, mv)
			}
		}
	})
}

func TestLeaveAndJoinMoveTheMinimumAtScale(t *testing.T) {
	const n, m = 100_000, 1000
	in := fresh(m, n)
	p := in.plan()
	if len(p.Moves) != n {
		t.Fatalf("the first plan places %d of %d items", len(p.Moves), n)
	}
	in = in.carryOut(p)
	spread := func(p placement.Outcome) uint64 { return slices.Max(p.Loads) - slices.Min(p.Loads) }

	for range 3 { // the sizes that divide evenly, and those that do not
		gone := len(in.members) / 2
		orphans := int(in.held()[gone])
		in = in.without(gone)
		p = in.plan()
		if len(p.Moves) != orphans || spread(p) > 1 {
			t.Errorf("leave: %d moves for %d orphans, spread %d", len(p.Moves), orphans, spread(p))
		}
		in = in.carryOut(p)
	}
	for range 5 {
		in = in.joinedBy(len(in.members) / 3)
		p = in.plan()
		// The joiner has to end with at least the floor of the average, and nobody else may get
		// anything.
		if want := n / len(in.members); len(p.Moves) != want || spread(p) > 1 {
			t.Errorf("join: %d moves, want %d, spread %d", len(p.Moves), want, spread(p))
		}
		in = in.carryOut(p)
	}
}

func TestEvenPlansDifferByOneAtMost(t *testing.T) {
	s := shape{maxMembers: 10, maxItems: 100, transit: true}
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := s.draw(d)
		if len(in.items) == 0 {
			return
		}
		p := in.plan()
		if diff := slices.Max(p.Loads) - slices.Min(p.Loads); diff > weight(in.items[0]) {
			t.Fatalf("loads %v", p.Loads)
		}
	})
}

// TestNoPlanMovesFewer compares with the best of all possible distributions, found by trying them
// all.
func TestNoPlanMovesFewer(t *testing.T) {
	s := shape{maxMembers: 4, maxItems: 12, capacities: true, drains: true, transit: true}
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		in := s.draw(d)
		if len(in.items) == 0 {
			return
		}
		unit := weight(in.items[0])
		held, have := make([]int, len(in.members)), make([]int, len(in.members))
		for _, it := range in.items {
			if it.Owner != none {
				held[it.Owner.Member()]++
			}
		}
		total, fits := len(in.items), 0
		for j := range in.members {
			for n := 0; n < total && in.room(j, uint64(n)*unit, unit); n++ {
				fits++
			}
		}
		best := -1
		var try func(j, left int)
		try = func(j, left int) {
			if j == len(have) {
				if left > 0 {
					return
				}
				moves := 0
				for a := range have {
					moves += max(0, held[a]-have[a])
					for b := range have {
						if have[a] > have[b]+1 && in.room(b, uint64(have[b])*unit, unit) {
							return
						}
					}
				}
				if best < 0 || moves < best {
					best = moves
				}
				return
			}
			for n := 0; n <= left && (n == 0 || in.room(j, uint64(n-1)*unit, unit)); n++ {
				have[j] = n
				try(j+1, left-n)
			}
		}
		try(0, min(total, fits))
		got := 0
		for _, mv := range in.plan().Moves {
			if mv.From != none {
				got++
			}
		}
		if got != best {
			t.Fatalf("%d held items move, %d would do", got, best)
		}
	})
}

func TestFreeItemsGoToTheEmptiestFirst(t *testing.T) {
	// Two orphans, a joiner, and an old member with one hole. The joiner is the emptier one, so
	// both orphans go there: what the others give it may take long to arrive.
	in := fresh(3, 12)
	owners := []int{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, -1, -1}
	for i, o := range owners {
		in.items[i].Owner = at(o)
	}
	for _, mv := range in.plan().Moves {
		if mv.From == none && mv.To.Member() != 2 {
			t.Errorf("free item %d goes to member %d", mv.Item, mv.To.Member())
		}
	}
}
