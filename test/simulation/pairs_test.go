package simulation_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Pairs: two faults of docs/faults.md in one run, about at the same moments, and settings that no
// other profile has.

var flagFaults = flag.String("sim.faults", "",
	"with -sim.profile=pairs and TestPairs: these faults, by number, in each run; empty: two "+
		"are drawn")

// TestPairs plays pairs of faults and holds each run against the invariants, as TestSeeds does.
func TestPairs(t *testing.T) {
	playSeeds(t, func(int) []string { return []string{"pairs"} })
}

// drawPair draws settings and two faults, or those that the flag names.
func drawPair(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 30))
	var numbers []int
	for n := range strings.SplitSeq(*flagFaults, ",") {
		if n, err := strconv.Atoi(n); err == nil && faults[n].draw != nil {
			numbers = append(numbers, n)
		}
	}
	all := slices.DeleteFunc(slices.Sorted(maps.Keys(faults)), func(n int) bool {
		return faults[n].draw == nil
	})
	for len(numbers) == 0 || len(numbers) < 2 && *flagFaults == "" {
		if n := all[r.IntN(len(all))]; !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return drawPairOf(seed, numbers...)
}

// drawPairOf draws settings for a run of these faults, and the faults' episodes.
func drawPairOf(seed uint64, numbers ...int) plan {
	r := rand.New(rand.NewPCG(seed, 31))
	h := &hand{Rand: r}
	p := plan{seed: seed, profile: "pairs", span: h.seconds(50, 120), items: 1 + r.IntN(30),
		faults: numbers}
	h.p = &p
	members := 2 + r.IntN(4)
	if r.IntN(6) == 0 {
		members += r.IntN(crowd - members)
	}
	if *flagMembers > 0 {
		members = *flagMembers
	}
	p.ids = memberIDs(members)
	ttl := []time.Duration{10, 10, 15, 30}[r.IntN(4)] * time.Second
	p.settings = settings{
		ttl: ttl, margin: ttl / 10, lag: h.seconds(0, 0.8), soak: h.seconds(0.2, 6),
		merge:      h.seconds(0.05, 1),
		workerSoak: h.seconds(0.01, 1), budget: []int{1, 3, 1000}[r.IntN(3)],
		knows: r.IntN(2) == 0, guarded: r.IntN(2) == 0,
		grace:     []float64{0, 0, 1.3, 2}[r.IntN(4)],
		brake:     []float64{0, 0, 1, 3}[r.IntN(4)],
		lockDelay: []time.Duration{0, 0, 3, 10}[r.IntN(4)] * time.Second,
	}
	if r.IntN(3) == 0 {
		p.settings.keep = h.seconds(1, 60)
	}
	p.settings.short(p.profile, seed)
	p.settings.delay(seed)
	p.checks()
	if r.IntN(4) == 0 {
		p.settings.config = h.of(plainConfig, loggedConfig)
	}
	for range 1 + r.IntN(3) {
		at := h.seconds(0, p.span.Seconds()-20)
		for _, n := range numbers {
			h.number, h.at = n, at+h.seconds(0, 4)
			faults[n].draw(h)
		}
	}
	slices.SortStableFunc(p.episodes, func(a, b episode) int { return int(a.at - b.at) })
	return p
}

// lasting are the kinds of episodes that change what is with the whole run.
var lasting = map[string]func(p *plan, e episode){
	"writers": func(p *plan, e episode) { p.settings.config = e.how },
	"guards":  func(p *plan, e episode) { p.settings.guarded = true },
	"unknown": func(p *plan, e episode) { p.settings.guarded, p.settings.knows = true, false },
	"copies":  func(p *plan, e episode) { p.settings.twice = anyTwice[e.n%len(anyTwice)] },
	"past":    func(p *plan, e episode) { p.settings.past = anyPast[e.n%len(anyPast)] },
	"ttls": func(p *plan, e episode) {
		p.settings.long = p.settings.ttl + time.Duration(10+e.n%30)*time.Second
	},
	"rates": func(p *plan, e episode) { p.settings.clocks("skewed", uint64(e.n)) },
	"thin":  func(p *plan, e episode) { p.profile = "laden" },
}

// nothing is the script of what lasts.
var nothing = script(func(w *world, e episode) []action { return once(e, func() {}) })

// effective is the plan with what lasts taken into its settings.
func (p plan) effective() plan {
	profile := p.profile
	for i, e := range p.episodes {
		if change := lasting[e.kind]; change != nil && p.plays(i) {
			change(&p, e)
		}
	}
	if profile != p.profile { // what a thin line can carry
		p.load()
		p.profile = profile
	}
	return p
}

// named says which faults a plan plays.
func (p plan) named() string {
	var names []string
	for _, n := range p.faults {
		names = append(names, fmt.Sprintf("%d (%s)", n, faults[n].what))
	}
	return strings.Join(names, " and ")
}
