package model

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Whole asks for the large bounds too, of which make model explores all: minutes, and a few GB of
// memory.
var Whole = flag.Bool("model.whole", false, "explore the large bounds as well")

// Omission is what the model has to say about rules that are left out.
type Omission struct {
	// Rules are named by what is done instead, as in test/simulation: one, or several with a "+"
	// between them.
	Rules  string
	Bound  string
	Breach []string // one of these has to come of it, as the model puts it; empty: any
	// Because says why nothing comes of the first one by itself: which rule covers it. Leaving that
	// one out is the second one.
	Because string
}

// Check explores the model without the rules of o and wants the shortest story of what comes of it.
// Where a rule is covered by others, it also wants that nothing comes of the first one alone, and
// that the others alone do not break as soon. It asks explore for each of them.
func (o Omission) Check(t *testing.T, explore func(rules []string) Result) {
	t.Helper()
	rules := strings.Split(o.Rules, "+")
	r := explore(rules)
	if r.Breach == "" {
		t.Errorf("%s breaks nothing: %v, explored wholly: %v", o.Rules, r, r.Whole)
		return
	}
	covered := ""
	for i, rule := range rules {
		if len(rules) == 1 {
			break
		}
		switch alone := explore(rules[i : i+1]); {
		case i == 0 && !alone.Whole:
			t.Errorf("%s alone is said to be covered, and is not:%s", rule, alone.Lines())
		case i == 0:
			covered = fmt.Sprintf("\n        %s alone holds (%v), by %s", rule, alone, o.Because)
		case alone.Breach != "" && len(alone.Story) <= len(r.Story):
			t.Errorf("%s alone breaks as soon as both:%s", rule, alone.Lines())
		}
	}
	t.Logf("%s, within %q, after %d states:%s%s", o.Rules, o.Bound, r.States, r.Lines(), covered)
}

// Sum is what several explorations found together.
type Sum struct {
	mu            sync.Mutex
	bounds        int
	states, steps int
	Taken         [256]int
}

// Holds wants r to be the whole of a model without a breach.
func (s *Sum) Holds(t *testing.T, r Result) {
	t.Helper()
	if r.Breach != "" {
		t.Errorf("broken, after %v:%s", r, r.Lines())
	} else if !r.Whole {
		t.Errorf("not explored wholly: %v", r)
	}
	t.Logf("holds: %v", r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds++
	s.states += r.States
	s.steps += r.Steps
	for i, n := range r.Taken {
		s.Taken[i] += n
	}
}

// Reached wants each named step to have been taken within some bound, and each kind of request to
// have been sent and to have arrived late. The kinds are steps that begin at sends and at arrives.
func (s *Sum) Reached(t *testing.T, verbs, kinds []string, sends, arrives int) {
	t.Helper()
	for v, name := range verbs {
		if name != "" && s.Taken[v] == 0 {
			t.Errorf("within no bound it comes to this: %s", name)
		}
	}
	for k, name := range kinds {
		if name != "" && (s.Taken[sends+k] == 0 || s.Taken[arrives+k] == 0) {
			t.Errorf("within no bound this is sent, and arrives late: %s", name)
		}
	}
}

func (s *Sum) String() string {
	return fmt.Sprintf("%d states in %d bounds, %d steps", s.states, s.bounds, s.steps)
}

// First is the rule that o is about.
func (o Omission) First() string {
	first, _, _ := strings.Cut(o.Rules, "+")
	return first
}
