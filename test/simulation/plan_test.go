package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// plan is everything about a run that is drawn from its seed, before it begins.
type plan struct {
	seed     uint64
	profile  string
	ids      []string
	items    int
	settings settings
	weather  weather // of every request, at all times
	episodes []episode
	span     time.Duration // of the faults
	keep     map[int]bool  // the episodes that are played; nil: all. -1 stands for the weather
}

type settings struct {
	ttl, soak, merge, workerSoak, margin time.Duration
	budget                               int
	lag                                  time.Duration // how long work takes to stop, at the most
	knows                                bool          // members know whether a predecessor's process lives
	keep                                 time.Duration // how long items wait for a member that stopped cleanly
	guarded                              bool          // each has a guard, which says goodbye for it when it was killed
	long                                 time.Duration // the TTL of every other process of a member; 0: all have the same
	config                               string        // its host writes config values: see plainConfig
}

func (s settings) longest() time.Duration { return max(s.ttl, s.long) }

// weather is what may become of a request, beside of being answered.
type weather struct {
	rate  float64
	kinds []string
}

// The fates of a request.
const (
	refused    = "refused"     // no connection
	silent     = "silent"      // never delivered, never answered
	replyLost  = "reply-lost"  // done, and never answered
	replyReset = "reply-reset" // done, and the connection breaks
	replyLate  = "reply-late"  // done, and answered later
	sentLate   = "sent-late"   // done later, after the caller has given up
	busy       = "429"
	failed     = "500"
	failedDone = "500-done" // done, and answered with 500
	away       = "503"
	denied     = "403"
	garbage    = "garbage" // done, and answered with something else
	backward   = "backward-index"
	noIndex    = "index-0"
	spurious   = "spurious" // a poll returns without a change
	stale      = "stale"    // a read is answered by a server that lags behind
)

var allFates = []string{refused, silent, replyLost, replyReset, replyLate, sentLate, busy, failed, failedDone, away, denied, garbage, backward, noIndex, spurious, stale}

// episode is one trouble, from at for dur.
type episode struct {
	kind    string
	at, dur time.Duration
	who     []int // members, by their place
	how     string
	n       int
	weather weather
}

func (e episode) String() string {
	s := fmt.Sprintf("%7.2fs +%.2fs %s", e.at.Seconds(), e.dur.Seconds(), e.kind)
	if e.how != "" {
		s += " " + e.how
	}
	if len(e.who) > 0 {
		s += fmt.Sprint(" members ", e.who)
	}
	if e.n != 0 {
		s += fmt.Sprint(" n=", e.n)
	}
	if e.weather.rate > 0 {
		s += fmt.Sprintf(" %.0f%% of %v", 100*e.weather.rate, e.weather.kinds)
	}
	return s
}

func (p plan) plays(i int) bool { return p.keep == nil || p.keep[i] }

func (p plan) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d, profile %s: members %v, %d items, %+v, faults for %v", p.seed, p.profile, p.ids, p.items, p.settings, p.span)
	if p.plays(-1) && p.weather.rate > 0 {
		fmt.Fprintf(&s, "\n  weather: %.1f%% of %v", 100*p.weather.rate, p.weather.kinds)
	}
	for i, e := range p.episodes {
		if p.plays(i) {
			fmt.Fprintf(&s, "\n  %2d: %v", i, e)
		}
	}
	return s.String()
}

// replay is the command that plays this plan again.
func (p plan) replay() string {
	s := fmt.Sprintf("go test ./test/simulation -run 'TestSeeds$' -v -timeout 120s -sim.seed=%d -sim.profile=%s", p.seed, p.profile)
	if *flagMutation != "" {
		s += " -tags coordd_mutations -sim.mutation=" + *flagMutation
	}
	if p.keep != nil {
		var keep []string
		for i := -1; i < len(p.episodes); i++ {
			if p.keep[i] {
				keep = append(keep, strconv.Itoa(i))
			}
		}
		s += " -sim.keep=" + strings.Join(keep, ",")
		if len(keep) == 0 {
			s += "none"
		}
	}
	return s
}

// The profiles: kinds of episodes with their weights.
var profiles = map[string]map[string]int{
	// hard is everything that leaves Consul's data alone.
	"hard": {
		"storm": 4, "cut": 4, "freeze": 3, "kill": 4, "leave": 2, "join": 1, "destroy": 3, "strange": 3,
		"election": 2, "restart": 1, "work": 3, "twin": 1, "blind": 3, "deaf": 2, "orphan": 2, "takeover": 3,
		"stray": 3, "late-lease": 2, "usurper": 3, "unseen": 2, "boomerang": 2, "recall": 1, "changeling": 1,
	},
	// These are of hard's kinds, for breakages that only they bring to light.
	"usurped":   {"usurper": 4, "work": 1, "join": 1},
	"mixed":     {"usurper": 1},
	"unseen":    {"unseen": 1},
	"recall":    {"recall": 1},
	"changed":   {"changeling": 1},
	"returning": {"boomerang": 3, "unseen": 1},
	"stray":     {"stray": 3, "kill": 1, "work": 1},
	"mourned":   {"kill": 4, "usurper": 3, "unseen": 1, "storm": 2, "takeover": 1},
	// config is for the writers of config values, of which each run of it has some.
	"config": {"storm": 5, "cut": 5, "kill": 5, "freeze": 2, "leave": 2, "election": 2, "restart": 1, "takeover": 2, "twin": 1, "usurper": 1},
	"denied": {"denials": 1},
	// gentle ends no session, and so may cost nobody anything (I5).
	"gentle": {"blip": 4, "drizzle": 4, "election": 2, "restart": 1},
	// forgetful is a Consul that loses writes as well.
	"forgetful": {"storm": 2, "cut": 3, "freeze": 1, "kill": 2, "destroy": 1, "work": 1, "restore": 3, "reset": 2},
}

func draw(profile string, seed uint64) plan { return drawFor(profile, seed, *flagMembers) }

// drawFor draws a plan for so many members; 0: as many as the seed says.
func drawFor(profile string, seed uint64, size int) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	seconds := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*r.Float64()) * float64(time.Second)).Round(time.Millisecond)
	}
	p := plan{seed: seed, profile: profile, span: seconds(60, 150), items: 4 + r.IntN(24)}
	members := 3 + r.IntN(3)
	if r.IntN(8) == 0 {
		members = 6 + r.IntN(7)
	}
	if size > 0 {
		members, p.items = size, 2*size
	}
	p.ids = memberIDs(members)
	ttl := 10 * time.Second
	p.settings = settings{
		ttl: ttl, margin: ttl / 10, lag: seconds(0, 0.8), soak: seconds(1, 5), merge: seconds(0.05, 0.5), workerSoak: seconds(0.01, 0.6),
		budget: []int{2, 5, 1000}[r.IntN(3)], knows: r.IntN(2) == 0,
	}
	if seed%3 == 0 {
		p.settings.keep = time.Duration(2+seed/3%40) * time.Second
	}
	// By dice of its own: the others fall as they did before there were guards.
	p.settings.guarded = profile == "mourned" || profile == "mixed" || rand.New(rand.NewPCG(seed, 2)).IntN(2) == 0
	// Gentle runs have a bound for what silence costs nobody, which is that of the shortest.
	if dice := rand.New(rand.NewPCG(seed, 3)); profile == "mixed" || profile != "gentle" && dice.IntN(3) == 0 {
		p.settings.long = time.Duration(20+dice.IntN(40)) * time.Second
	}
	switch dice, writes := rand.New(rand.NewPCG(seed, 4)).IntN(8), profile == "config" || profile == "denied"; {
	case writes && dice%2 == 0, dice == 0:
		p.settings.config = plainConfig
	case writes, dice == 1:
		p.settings.config = loggedConfig
	}
	pick := func() []string {
		kinds := slices.Clone(allFates)
		r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		return kinds[:1+r.IntN(5)]
	}
	p.weather = weather{[]float64{0, 0, 0.005, 0.02, 0.05}[r.IntN(5)], pick()}
	if profile == "gentle" {
		p.weather = weather{[]float64{0, 0.01, 0.03}[r.IntN(3)], []string{busy, failed, spurious, replyReset, backward, noIndex, away}}
	}
	var kinds []string
	for kind, n := range profiles[profile] {
		for range n {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	one := func() []int { return []int{r.IntN(members)} }
	some := func() []int { return r.Perm(members)[:1+r.IntN(members)] }
	for range 3 + r.IntN(8) {
		e := episode{kind: kinds[r.IntN(len(kinds))], at: seconds(0, p.span.Seconds()), n: r.IntN(1 << 20)}
		switch e.kind {
		case "storm":
			e.who, e.dur, e.weather = some(), seconds(1, 30), weather{0.05 + 0.5*r.Float64(), pick()}
		case "denials": // a try that arrives late, and the next one is refused
			e.who, e.dur, e.weather = some(), seconds(10, 60), weather{0.6, []string{sentLate, denied}}
		case "cut":
			e.who, e.dur, e.how = some(), seconds(1, 45), []string{"refused", "silent", "one-way"}[r.IntN(3)]
		case "deaf":
			e.who, e.dur = one(), seconds(5, 45)
		case "freeze":
			e.who, e.dur = one(), seconds(1, 60)
		case "kill":
			e.who, e.dur, e.how = one(), seconds(0.1, 45), []string{"before-write", "after-write", "write-in-flight", "now"}[r.IntN(4)]
		case "takeover": // the leader is killed around a write of a move that is under way
			e.dur, e.how = seconds(0.1, 30), []string{"before-write", "after-write", "write-in-flight"}[r.IntN(3)]
			e.n = r.IntN(8)
		case "leave", "join":
			e.who, e.dur = one(), seconds(1, 40)
		case "destroy":
			e.who = one()
		case "blind": // the session is ended behind a link that is cut at that moment
			e.who, e.dur, e.how = one(), seconds(8, 40), []string{"silent", "refused"}[r.IntN(2)]
		case "orphan": // the record is deleted behind a link on which only renewals pass
			e.who, e.dur = one(), seconds(12, 40)
		case "stray":
			e.who, e.how = one(), []string{"", "depose"}[r.IntN(2)]
		case "changeling":
			e.who, e.dur = one(), seconds(5, 25)
		case "recall":
			e.who, e.dur = []int{r.IntN(members), r.IntN(members)}, seconds(2, 20)
		case "boomerang":
			e.who, e.dur = []int{r.IntN(members), r.IntN(members)}, seconds(40, 60)
		case "late-lease":
			e.who, e.dur = one(), seconds(15, 40)
		case "usurper":
			e.who, e.dur, e.how = one(), seconds(8, 40), []string{"silent", "eyes"}[r.IntN(2)]
		case "unseen":
			e.who, e.dur = one(), seconds(14, 40)
		case "strange":
			e.who, e.how = one(), []string{"member-delete", "member-write", "leader-delete", "leader-write", "leader-cas", "ack-delete", "ack-write", "odd-keys"}[r.IntN(8)]
		case "election":
			e.dur = seconds(0.2, 15)
			if profile == "gentle" {
				e.dur = seconds(0.2, 4)
			}
		case "restart":
			e.dur = seconds(0.5, 20)
			if profile == "gentle" {
				e.dur = seconds(0.2, 4)
			}
		case "work":
			e.how, e.n = []string{"add", "remove", "both"}[r.IntN(3)], 1+r.IntN(6)
		case "twin":
			e.who, e.dur = one(), seconds(1, 80)
		case "blip":
			e.who, e.dur, e.how = some(), seconds(0.1, 4), []string{"refused", "silent"}[r.IntN(2)]
		case "drizzle":
			e.who, e.dur, e.weather = some(), seconds(0.5, 4), weather{0.5, []string{refused, busy, failed, away, replyReset, garbage, failedDone, denied}}
		case "restore":
			e.dur = seconds(1, 40) // how old the snapshot is
		case "reset":
			e.dur = seconds(1, 15) // until the operator has put the workload back
		}
		p.episodes = append(p.episodes, e)
	}
	slices.SortStableFunc(p.episodes, func(a, b episode) int { return int(a.at - b.at) })
	if profile == "gentle" {
		// One at a time, with room for a renewal between: two outages in a row are one long one.
		at := 15 * time.Second
		for i := range p.episodes {
			p.episodes[i].at = at
			at += p.episodes[i].dur + seconds(8, 15)
		}
		p.span = at
	}
	return p
}

// memberIDs are ids of which each is the beginning of others.
func memberIDs(n int) []string {
	ids := []string{"m", "m1", "m10", "m11", "m100"}
	for i := 2; len(ids) < n; i++ {
		ids = append(ids, fmt.Sprintf("m%d", i*7))
	}
	return ids[:n]
}
