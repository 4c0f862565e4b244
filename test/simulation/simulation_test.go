package simulation_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	flagSeed    = flag.Uint64("sim.seed", 0, "play this seed only")
	flagFrom    = flag.Uint64("sim.from", 1, "the first seed")
	flagSeeds   = flag.Int("sim.seeds", fewSeeds, "how many seeds of each profile")
	flagMinutes = flag.Float64("sim.minutes", 0, "play seeds for so many minutes instead")
	flagProfile = flag.String("sim.profile", "",
		"hard, gentle, fair, forgetful, config, aimed, laden or pairs; empty: all but pairs")
	flagKeep = flag.String("sim.keep", "",
		"with -sim.seed: the episodes to play, by number; -1 is the weather, none is none")
	flagTimes    = flag.Int("sim.times", 1, "with -sim.seed: how often")
	flagMembers  = flag.Int("sim.members", 0, "this many members in each run")
	flagMutation = flag.String("sim.mutation", "",
		"with -sim.seed: a breakage of the protocol, see TestMutations")
	flagLog = flag.Bool("sim.log", false, "with -sim.seed: print what the members log")
)

// tally is what a whole test run came to.
type tally struct {
	mu                          sync.Mutex
	seeds, starts, fenced       int
	writes, leaders, overlooked int
	virtual, slowest            time.Duration
}

func (y *tally) add(o outcome) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.seeds++
	y.starts += o.report.Starts
	y.fenced += o.report.Fenced
	y.overlooked += o.report.Forgiven
	y.writes += o.report.Writes
	y.leaders += o.report.Leaderships
	y.virtual += o.virtual
	y.slowest = max(y.slowest, o.report.Settled)
}

func (y *tally) String() string {
	return fmt.Sprintf("%d runs, %.1f virtual hours, %d starts of work, %d leaderships, %d "+
		"writes, %d overlaps fenced, %d forgiven, slowest to settle %v",
		y.seeds, y.virtual.Hours(), y.starts, y.leaders, y.writes, y.fenced, y.overlooked,
		y.slowest.Round(time.Millisecond))
}

// profilesOf are the profiles of which a run is played as the i-th: hard ones more often, and in
// place of every other second one those that are mostly its, or cost more.
func profilesOf(i int) []string {
	switch {
	case *flagProfile != "":
		return []string{*flagProfile}
	case i%4 == 1:
		return []string{"hard", "laden", "gentle", "fair", "forgetful", "config"}
	case i%4 == 3:
		return []string{"hard", "aimed", "gentle", "fair", "forgetful", "config"}
	}
	return []string{"hard", "hard", "gentle", "fair", "forgetful", "config"}
}

// TestSeeds plays seeds and holds each run against the invariants.
func TestSeeds(t *testing.T) {
	if *flagSeed != 0 {
		one(t)
		return
	}
	playSeeds(t, profilesOf)
}

// playSeeds plays seeds, each in the profiles that are its.
func playSeeds(t *testing.T, profilesOf func(int) []string) {
	var sum tally
	begin := time.Now()
	enough := func(i int) bool {
		if *flagMinutes > 0 {
			return time.Since(begin).Minutes() > *flagMinutes
		}
		return i >= *flagSeeds
	}
	for i := 0; !enough(i) && !t.Failed(); i++ {
		if raceDetector && i%2 == 0 && *flagSeeds == fewSeeds {
			continue // half of the usual ones, with the rarer profiles
		}
		names := profilesOf(i)
		for k, profile := range names {
			seed := *flagFrom + uint64(i)
			if k > 0 && profile == names[k-1] {
				seed += 1 << 32
			}
			p := draw(profile, seed)
			if raceDetector && len(p.ids) >= crowd {
				continue // it makes them ten times as slow; without it they are played by make long
			}
			o := play(t, p, nil, nil)
			sum.add(o)
			if o.failed() {
				t.Errorf("%v", report(t, o))
			}
		}
	}
	took := time.Since(begin)
	t.Logf("%v; %v of real time: a minute buys %.1f virtual hours", &sum, took.Round(time.Second),
		sum.virtual.Hours()/took.Minutes())
}

// TestAHundredMembers plays one large cluster.
func TestAHundredMembers(t *testing.T) {
	if raceDetector {
		t.Log("a smaller one: the race detector makes it ten times as slow")
	}
	p := drawFor("hard", *flagFrom, large)
	begin := time.Now()
	o := play(t, p, nil, nil)
	t.Logf("%v of virtual time in %v: %v", o.virtual.Round(time.Second),
		time.Since(begin).Round(time.Millisecond), o.report)
	if o.failed() {
		t.Errorf("%v\n%v\n%s", p, o, keepHistory(t, o))
	}
}

// one plays the seed that the flags name.
func one(t *testing.T) {
	profile := *flagProfile
	if profile == "" {
		profile = "hard"
	}
	p := draw(profile, *flagSeed)
	if *flagKeep != "" {
		p.keep = map[int]bool{}
		for word := range strings.SplitSeq(*flagKeep, ",") {
			if n, err := strconv.Atoi(word); err == nil {
				p.keep[n] = true
			}
		}
	}
	var log *slog.Logger
	if *flagLog {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.String("t", a.Value.Time().Format("04:05.000"))
				}
				return a
			}}))
	}
	wire := wireMutant(*flagMutation)
	if wire == nil && !breakRule(*flagMutation) {
		t.Fatalf("-sim.mutation=%s takes the overlay of `go run ./test/mutations/overlay bin/mutations` "+
			"and -tags coordd_mutations", *flagMutation)
	}
	defer breakRule("")
	t.Log(p)
	for range *flagTimes {
		begin := time.Now()
		o := play(t, p, wire, log)
		t.Logf("%v of virtual time in %v", o.virtual.Round(time.Second),
			time.Since(begin).Round(time.Millisecond))
		if o.failed() {
			t.Errorf("%v\n%s", o, keepHistory(t, o))
		} else {
			t.Log(o)
			if *flagLog {
				keepHistory(t, o)
			}
		}
	}
}

// report shrinks a failing run and says all there is to say about it.
func report(t *testing.T, o outcome) string {
	small, least := shrink(t, o)
	return fmt.Sprintf("%v\n%v\n%s\nshrunk to:\n%v\n%v\nreplay it with (the order of one "+
		"moment's goroutines differs: try -sim.times=20):\n  %s",
		o.plan, o, keepHistory(t, o), small, least, small.replay())
}

// keepHistory writes the run's history to a file for coordd verify.
func keepHistory(t *testing.T, o outcome) string {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("coordd-%s-%d.history", o.plan.profile,
		o.plan.seed))
	var b strings.Builder
	for _, e := range o.events {
		fmt.Fprintln(&b, e)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Log(err)
	}
	return "history: " + name
}

// shrink leaves faults and episodes out as long as one of the same rules still breaks.
// Each attempt is played a few times, since a run need not repeat exactly.
func shrink(t *testing.T, o outcome) (plan, outcome) {
	best, found := o.plan, o
	best.keep = map[int]bool{}
	for i := -1; i < len(best.episodes); i++ {
		best.keep[i] = o.plan.plays(i)
	}
	same := func(p plan) (outcome, bool) {
		for range 3 {
			if try := play(t, p, nil, nil); slices.ContainsFunc(try.rules(), func(r string) bool {
				return slices.Contains(o.rules(), r)
			}) {
				return try, true
			}
		}
		return outcome{}, false
	}
	deadline := time.Now().Add(45 * time.Second)
	for smaller := true; smaller; {
		smaller = false
		for _, part := range best.parts() {
			if !slices.ContainsFunc(part, best.plays) || time.Now().After(deadline) {
				continue
			}
			try := best
			try.keep = map[int]bool{}
			for k, v := range best.keep {
				try.keep[k] = v && !slices.Contains(part, k)
			}
			if o, ok := same(try); ok {
				best, found, smaller = try, o, true
			}
		}
	}
	return best, found
}

// parts are what shrink leaves out: all episodes of one fault, and then the weather and each one.
func (p plan) parts() (parts [][]int) {
	for _, n := range p.faults {
		var part []int
		for i, e := range p.episodes {
			if e.fault == n {
				part = append(part, i)
			}
		}
		parts = append(parts, part)
	}
	for i := -1; i < len(p.episodes); i++ {
		parts = append(parts, []int{i})
	}
	return parts
}
