package placement_test

import (
	"testing"

	"github.com/coordd/coordd/actors/placement"
	"github.com/coordd/coordd/internal/testkit"
)

// execution carries plans out as a cluster does: owners are asked, release when their work has
// ended, and free items are granted; each at its own pace, with a new plan before every step.
type execution struct {
	input
	pace             int // chance of each step, in percent
	releases, grants int
}

// step does each possible thing to each item with a chance, and tells whether anything is left to
// do.
func (e *execution) step(d testkit.Dice) (busy bool) {
	happens := func() bool { return d.IntN(100) < e.pace }
	p := e.plan()
	leaves := make(map[int32]bool)
	for _, mv := range p.Moves {
		leaves[mv.Item] = mv.From != none
	}
	for i := range e.items {
		it := &e.items[i]
		if it.Leaving && !leaves[int32(i)] {
			busy = true
			if happens() {
				it.Leaving = false
			}
		}
	}
	for _, mv := range p.Moves {
		it := &e.items[mv.Item]
		if mv.From == none && mv.To == none {
			continue
		}
		busy = true
		switch {
		case !happens():
		case mv.From == none:
			it.Owner = mv.To
			e.grants++
		case !it.Leaving:
			it.Leaving = true
		default:
			it.Leaving, it.Owner = false, none
			e.releases++
		}
	}
	return busy
}

func (e *execution) run(t *testing.T, d testkit.Dice) {
	e.pace = testkit.Pick(d, 10, 50, 90)
	for range 1000 {
		if !e.step(d) {
			return
		}
	}
	t.Fatalf("not settled after 1000 steps, %d releases and %d grants", e.releases, e.grants)
}

// foreseen counts what a plan says: releases, grants.
func foreseen(p placement.Outcome) (releases, grants int) {
	for _, mv := range p.Moves {
		if mv.From != none {
			releases++
		}
		if mv.To != none {
			grants++
		}
	}
	return releases, grants
}

func TestEvenPlansAreSteadyWhileTheyAreCarriedOut(t *testing.T) {
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 6, maxItems: 25, drains: true, transit: true}
		s.capacities = d.Bool()
		s.pins = d.Bool()
		s.rollout = d.Bool()
		s.zones = d.Bool()
		e := execution{input: s.draw(d)}
		releases, grants := foreseen(e.plan())
		e.run(t, d)
		if e.releases != releases || e.grants != grants {
			t.Fatalf("the first plan has %d releases and %d grants; it took %d and %d", releases,
				grants, e.releases, e.grants)
		}
	})
}

func TestWeightedPlansSettleWhenCarriedOutInSteps(t *testing.T) {
	var planned, took int
	testkit.Draws(t, func(t *testing.T, d testkit.Dice) {
		s := shape{maxMembers: 6, maxItems: 25, weighted: true, drains: true, transit: true}
		s.capacities = d.Bool()
		s.pins = d.Bool()
		s.rollout = d.Bool()
		s.zones = d.Bool()
		e := execution{input: s.draw(d)}
		releases, _ := foreseen(e.plan())
		e.run(t, d)
		planned, took = planned+releases, took+e.releases
		if complaint := e.unfair(); complaint != "" {
			t.Fatal(complaint)
		}
	})
	t.Logf("%d releases foreseen, %d needed", planned, took)
}
