package leading

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/test/model"
)

// The first bounds are those within which rules are left out; the protocol itself has to hold
// within all of them.
var bounds = []Bound{
	{Name: "two sessions end early, one answer is lost", Procs: 2, Sessions: 2, TTL: 2,
		Faults: faults{EarlyEnd: 2, Late: 1}},
	{Name: "a clean stop, one answer is lost", Procs: 2, Sessions: 2, TTL: 2,
		Faults: faults{Late: 1, Leaves: 1, Epochs: 1}},
	{Name: "a clean stop, a copied write", Procs: 2, Sessions: 1, TTL: 2,
		Faults: faults{Copies: 1, Leaves: 1, Abandons: 1, Epochs: 1}},
	{Name: "a chain of three", Procs: 3, Sessions: 1, TTL: 2, LongTTL: 3,
		Faults: faults{EarlyEnd: 1, Crashes: 1}},
	{Name: "a clean stop during a wait", Procs: 3, Sessions: 1, TTL: 2, LongTTL: 3,
		Faults: faults{EarlyEnd: 1, Leaves: 1}},
}

// large are explored by make model.
var large = []Bound{
	{Name: "clean stops", Procs: 3, Sessions: 1, TTL: 2,
		Faults: faults{EarlyEnd: 1, Copies: 1, Leaves: 2, Abandons: 1, Epochs: 1}},
	{Name: "everything once", Procs: 2, Sessions: 2, TTL: 2,
		Faults: faults{EarlyEnd: 1, Crashes: 1, Late: 1, Copies: 1, Leaves: 1, Abandons: 1,
			Epochs: 1}},
	{Name: "three, everything once, two sessions end early", Procs: 3, Sessions: 1, TTL: 2,
		LongTTL: 3,
		Faults:  faults{EarlyEnd: 2, Crashes: 1, Late: 1, Copies: 1, Leaves: 1, Abandons: 1}},
	{Name: "three with two sessions each", Procs: 3, Sessions: 2, TTL: 2,
		Faults: faults{EarlyEnd: 2, Crashes: 1, Late: 1}},
}

var omissions = []model.Omission{
	{Rules: "no-lease", Bound: "a chain of three"},
	{Rules: "lead-at-once", Bound: "a chain of three"},
	{Rules: "lead-not-chained", Bound: "a chain of three"},
	{Rules: "resigned-while-it-runs", Bound: "a clean stop, a copied write"},
	{Rules: "wait-noted-later", Bound: "two sessions end early, one answer is lost"},
	{Rules: "rest-cut-short", Bound: "a clean stop during a wait"},
	{Rules: "term-unchecked", Bound: "clean stops", Breach: []string{"Lead runs in two processes"}},
	{Rules: "leader-key-unchecked", Bound: "a clean stop, a copied write"},
}

func TestOneLeadRunsAtATime(t *testing.T) {
	all := bounds
	if *model.Whole {
		all = slices.Concat(bounds, large)
	}
	var sum model.Sum
	t.Run("bounds", func(t *testing.T) {
		for _, b := range all {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				sum.Holds(t, model.Explore((&Model{bound: b}).System(), 0))
			})
		}
	})
	t.Logf("one Lead runs at a time: %v", &sum)
	sum.Reached(t, verbNames[:], kinds[:], int(sends), int(arrives))
}

func TestEachRuleLeftOutHasItsStory(t *testing.T) {
	all, told := slices.Concat(bounds, large), map[string]bool{}
	for _, o := range omissions {
		told[o.Rules] = true
		at := slices.IndexFunc(all, func(b Bound) bool { return b.Name == o.Bound })
		if at >= len(bounds) && !*model.Whole {
			continue // make model tells it
		}
		t.Run(o.Rules, func(t *testing.T) {
			t.Parallel()
			o.Check(t, func(rules []string) model.Result {
				m := &Model{bound: all[at]}
				for _, rule := range rules {
					m.broken[slices.Index(ruleNames[:], rule)] = true
				}
				return model.Explore(m.System().Only(o.Breach...), 0)
			})
		})
	}
	for _, name := range ruleNames {
		if !told[name] {
			t.Errorf("nothing says what comes of %s", name)
		}
	}
}
