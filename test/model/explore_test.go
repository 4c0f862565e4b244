package model_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/coordd/coordd/test/model"
)

// jugs is the old riddle: two jugs of three and five litres are filled, emptied and poured over.
type jugs struct{ three, five int }

func riddle(breach func(*jugs) string) model.System[jugs] {
	return model.System[jugs]{
		Next: func(s *jugs, emit func(model.Step, *jugs)) {
			a, b := min(s.three, 5-s.five), min(s.five, 3-s.three)
			for i, t := range []jugs{
				{3, s.five}, {s.three, 5}, {0, s.five}, {s.three, 0},
				{s.three - a, s.five + a}, {s.three + b, s.five - b},
			} {
				emit(model.Step{Verb: uint8(i)}, &t)
			}
		},
		Breach: breach,
		Tell:   func(_ model.Step, _, s *jugs) string { return fmt.Sprint(*s) },
	}
}

func TestEveryStateIsVisitedOnce(t *testing.T) {
	r := model.Explore(riddle(func(*jugs) string { return "" }), 0)
	// One of the two is full or empty at any time.
	if r.States != 16 || r.Steps != 16*6 || !r.Whole || r.Breach != "" {
		t.Errorf("%v, %+v, want 16 states and six steps from each", r, r)
	}
	for verb, n := range r.Taken[:6] {
		if n != 16 {
			t.Errorf("step %d was taken %d times, want 16", verb, n)
		}
	}
}

func TestTheStoryOfABreachIsAsShortAsAny(t *testing.T) {
	four := func(s *jugs) string {
		if s.five == 4 {
			return "four litres"
		}
		return ""
	}
	r := model.Explore(riddle(four), 0)
	want := []string{"{0 5}", "{3 2}", "{0 2}", "{2 0}", "{2 5}", "{3 4}"}
	if r.Breach != "four litres" || !reflect.DeepEqual(r.Story, want) || r.Whole {
		t.Errorf("%v: %q by %v, want %v", r, r.Breach, r.Story, want)
	}
	if r := model.Explore(riddle(four).Only("five litres"), 0); r.Breach != "" || !r.Whole {
		t.Errorf("%q was found, which was not looked for", r.Breach)
	}
}

func TestALimitLeavesTheExplorationUnfinished(t *testing.T) {
	r := model.Explore(riddle(func(*jugs) string { return "" }), 5)
	if r.Whole || r.States < 5 {
		t.Errorf("%v, whole: %v, want it unfinished", r, r.Whole)
	}
}
