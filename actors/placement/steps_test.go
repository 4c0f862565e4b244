package placement_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/actors/placement"
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
func (e *execution) step(t *rapid.T) (busy bool) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "step"), 0))
	happens := func() bool { return r.IntN(100) < e.pace }
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

func (e *execution) run(t *rapid.T) {
	e.pace = rapid.SampledFrom([]int{10, 50, 90}).Draw(t, "pace")
	for range 1000 {
		if !e.step(t) {
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
	rapid.Check(t, func(t *rapid.T) {
		s := shape{maxMembers: 6, maxItems: 25, drains: true, transit: true}
		s.capacities = rapid.Bool().Draw(t, "capacities")
		s.pins = rapid.Bool().Draw(t, "pins")
		s.rollout = rapid.Bool().Draw(t, "rollout")
		s.zones = rapid.Bool().Draw(t, "zones")
		e := execution{input: s.generator().Draw(t, "input")}
		releases, grants := foreseen(e.plan())
		e.run(t)
		if e.releases != releases || e.grants != grants {
			t.Fatalf("the first plan has %d releases and %d grants; it took %d and %d", releases,
				grants, e.releases, e.grants)
		}
	})
}

func TestWeightedPlansSettleWhenCarriedOutInSteps(t *testing.T) {
	var planned, took int
	rapid.Check(t, func(t *rapid.T) {
		s := shape{maxMembers: 6, maxItems: 25, weighted: true, drains: true, transit: true}
		s.capacities = rapid.Bool().Draw(t, "capacities")
		s.pins = rapid.Bool().Draw(t, "pins")
		s.rollout = rapid.Bool().Draw(t, "rollout")
		s.zones = rapid.Bool().Draw(t, "zones")
		e := execution{input: s.generator().Draw(t, "input")}
		releases, _ := foreseen(e.plan())
		e.run(t)
		planned, took = planned+releases, took+e.releases
		if complaint := e.unfair(); complaint != "" {
			t.Fatal(complaint)
		}
	})
	t.Logf("%d releases foreseen, %d needed", planned, took)
}
