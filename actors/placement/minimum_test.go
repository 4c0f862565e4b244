package placement_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/actors/placement"
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

func TestAnEvenPlanMovesTheMinimumThatIsCountedWithoutIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{maxMembers: 8, maxItems: 50, drains: true, transit: true,
			capacities: rapid.Bool().Draw(t, "capacities"), pins: rapid.Bool().Draw(t, "pins"),
			rollout: rapid.Bool().Draw(t, "rollout"), zones: rapid.Bool().Draw(t, "zones")}
		in := s.generator().Draw(t, "input")
		p := in.plan()
		least, exact := placement.Minimum(in.members, in.items, p)
		if got := heldMoves(p); !exact || got != least {
			t.Fatalf("%d held items move, the minimum is %d (exact: %v)", got, least, exact)
		}
	})
}

func TestAPlanOfDifferentWeightsMovesNoFewerThanTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := everything(t)
		p := in.plan()
		if least, _ := placement.Minimum(in.members, in.items, p); heldMoves(p) < least {
			t.Fatalf("%d held items move, the minimum is %d", heldMoves(p), least)
		}
	})
}

func TestTheMinimumOfNothingIsNothing(t *testing.T) {
	if least, exact := placement.Minimum(nil, nil, placement.Outcome{}); least != 0 || !exact {
		t.Errorf("%d, exact: %v", least, exact)
	}
}
