package placement_test

import (
	"math"
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// heldMoves counts the moves of a plan that take an item from an owner.
func heldMoves(p placement.Outcome) int {
	n := 0
	for _, mv := range p.Moves {
		if mv.From != none {
			n++
		}
	}
	return n
}

// fewest counts how many items any plan has to take from an owner when all weigh the same. It knows
// the loads and nothing of the planner: unpinned items find their level as water does, above the
// pinned ones (which stay as in p) and below the limits. What is left over, less than one for each,
// goes to members that hold more than the level. In a rollout members of the newest version may
// keep twice as much.
func (in input) fewest(p placement.Outcome) int {
	after := in.carryOut(p)
	pinned, held := make([]int64, len(in.members)), make([]int64, len(in.members))
	unit, moves, unpinned := int64(1), 0, int64(0)
	for i, it := range in.items {
		unit = int64(weight(it))
		owner := it.Owner.Member()
		owned := owner >= 0 && owner < len(in.members)
		if it.Pin == none {
			unpinned++
			if owned {
				held[owner]++
			}
			continue
		}
		to := after.items[i].Owner
		if owned && to != it.Owner {
			moves++
		}
		if m := to.Member(); m >= 0 && m < len(pinned) {
			pinned[m]++
		}
	}
	share := func(j int, level int64) int64 {
		room := int64(math.MaxInt64)
		switch m := in.members[j]; {
		case m.Drain:
			room = 0
		case m.Capacity > 0:
			room = max(0, int64(m.Capacity)/unit-pinned[j])
		}
		return min(max(0, level-pinned[j]), room)
	}
	filled := func(level int64) (sum int64) {
		for j := range in.members {
			sum += share(j, level)
		}
		return sum
	}
	level := int64(0)
	for top := int64(2 * len(in.items)); level < top && filled(level+1) <= unpinned; {
		level++
	}
	spare, saved := unpinned-filled(level), int64(0)
	for j, m := range in.members {
		keeps, favoured := level, m.Newest && in.rollout()
		if favoured {
			keeps = 2 * (level + min(spare, 1))
		}
		above := held[j] - share(j, keeps)
		if above <= 0 {
			continue
		}
		moves += int(above)
		if !favoured && share(j, level+1) > share(j, level) {
			saved++
		}
	}
	return moves - int(min(spare, saved))
}

func TestAnEvenPlanTakesNoMoreItemsFromOwnersThanAnyPlanHasTo(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 8, maxItems: 50, drains: true, transit: true,
			capacities: d.Bool(), pins: d.Bool(),
			rollout: d.Bool(), zones: d.Bool()}
		in := s.draw(d)
		p := in.plan()
		if got, want := heldMoves(p), in.fewest(p); got != want {
			t.Fatalf("%d held items move, and %d have to", got, want)
		}
	})
}
