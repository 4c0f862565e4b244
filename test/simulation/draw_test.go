package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The profiles: kinds of episodes with their weights.
var profiles = map[string]map[string]int{
	// hard is everything that leaves Consul's data alone.
	"hard": {
		"storm": 4, "cut": 4, "freeze": 3, "kill": 4, "leave": 2, "join": 1, "destroy": 3,
		"strange":  3,
		"election": 2, "restart": 2, "work": 3, "twin": 1, "hang": 4, "suspend": 2, "blind": 3,
		"deaf": 2, "orphan": 2, "takeover": 3,
		"stray": 3, "late-lease": 2, "usurper": 3, "unseen": 2, "boomerang": 2, "recall": 1,
		"changeling": 1,
	},
	// These are of hard's kinds, for breakages that only they bring to light.
	"usurped":   {"usurper": 4, "work": 1, "join": 1},
	"mixed":     {"usurper": 1},
	"unacked":   {"usurper": 2, "strange": 1}, // acks are deleted
	"unseen":    {"unseen": 1},
	"recall":    {"recall": 1},
	"changed":   {"changeling": 1},
	"elders":    {"elder-key": 1},
	"relapsed":  {"relapse": 1},
	"returning": {"boomerang": 3, "unseen": 1},
	"again":     {"lost-again": 1},
	"stray":     {"stray": 3, "kill": 1, "work": 1},
	"mourned":   {"kill": 4, "usurper": 3, "unseen": 1, "storm": 2, "takeover": 1},
	// config is for the writers of config values, of which each run of it has some.
	"config": {"storm": 5, "cut": 5, "kill": 5, "freeze": 2, "leave": 2, "election": 2,
		"restart": 1, "takeover": 2, "twin": 1, "usurper": 1},
	"denied": {"denials": 1},
	// aimed is for strangers who know the fields of each kind of key.
	"aimed": {"aimed": 8, "elder-key": 1, "kill": 2, "leave": 1, "destroy": 1, "work": 1},
	// laden is for large payloads and thin lines.
	"laden": {"work": 3, "kill": 2, "leave": 1, "join": 1, "takeover": 1, "cut": 1, "storm": 1,
		"destroy": 1},
	// skewed is for clocks that run at different rates.
	"skewed": {"late-lease": 4, "blind": 1, "usurper": 1},
	// hung is for actors that stand still, while others have things to ask of them.
	"hung": {"hang": 3, "work": 2, "kill": 1, "leave": 1},
	// doubled is for second copies: every second write arrives twice, and items move back to where
	// they were.
	"doubled": {"leave": 3, "kill": 3, "work": 3, "boomerang": 2, "takeover": 1, "recall": 1},
	// gentle ends no session, and so may cost nobody anything (I5).
	"gentle": {"blip": 4, "drizzle": 4, "election": 2, "restart": 1},
	// sick is for work that fails: everywhere, or at one member.
	"sick": {"stubborn": 4, "kill": 2, "takeover": 2, "leave": 1, "join": 1, "destroy": 1,
		"work": 2, "storm": 1, "usurper": 1},
	// remade is for work that fails everywhere, and items that are made anew.
	"remade": {"work": 1},
	// fair leaves the conditions alone under which docs/guarantees.md promises how long an item is
	// without an owner.
	"fair":    {"kill": 4, "takeover": 2, "leave": 2, "join": 1, "destroy": 2, "work": 2},
	"drained": {"drain": 1}, // of those who lead, one after the other
	"waited":  {"kill": 1},  // of fair's, and each time something else goes on as well
	// forgetful is a Consul that loses writes as well.
	"forgetful": {"storm": 2, "cut": 3, "freeze": 1, "kill": 2, "destroy": 1, "work": 1,
		"restore": 3, "reset": 2},
}

// crowd is how many members a large cluster has at least. One in five is such a one, with up to 30.
const crowd = 13

func draw(profile string, seed uint64) plan { return drawFor(profile, seed, *flagMembers) }

// drawFor draws a plan for so many members; 0: as many as the seed says.
func drawFor(profile string, seed uint64, size int) plan {
	if profile == "pairs" {
		return drawPair(seed)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	seconds := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*r.Float64()) * float64(time.Second)).Round(
			time.Millisecond)
	}
	p := plan{seed: seed, profile: profile, span: seconds(60, 150), items: 4 + r.IntN(24)}
	members := 3 + r.IntN(3)
	if r.IntN(8) == 0 {
		members = 6 + r.IntN(7)
	}
	// By dice of its own: the others fall as they did where the cluster is as it was.
	if dice := rand.New(rand.NewPCG(seed, 9)); dice.IntN(5) == 0 && profile != "laden" {
		// small ones more often: the cost grows with the members
		members = crowd + min(dice.IntN(18), dice.IntN(18))
		p.items += members
	}
	if size > 0 {
		members, p.items = size, 2*size
	}
	p.ids = memberIDs(members)
	ttl := 10 * time.Second
	p.settings = settings{
		ttl: ttl, margin: ttl / 10, lag: seconds(0, 0.8), soak: seconds(1, 5),
		merge: seconds(0.05, 0.5), workerSoak: seconds(0.01, 0.6),
		budget: []int{2, 5, 1000}[r.IntN(3)], knows: r.IntN(2) == 0,
	}
	p.settings.copied = rand.New(rand.NewPCG(seed, 21)).IntN(3) == 0
	p.settings.zones, p.settings.versions = seed%2 == 1, seed%5 == 3
	p.settings.changes = seed%4 == 2
	if seed%3 == 0 {
		p.settings.keep = time.Duration(2+seed/3%40) * time.Second
	}
	// By dice of its own: the others fall as they did before there were guards.
	p.settings.guarded = profile == "mourned" || profile == "mixed" ||
		rand.New(rand.NewPCG(seed, 2)).IntN(2) == 0
	// Gentle runs have a bound for what silence costs nobody, which is that of the shortest.
	if dice := rand.New(rand.NewPCG(seed, 3)); profile == "mixed" || profile == "unacked" ||
		profile != "gentle" && dice.IntN(3) == 0 {
		p.settings.long = time.Duration(20+dice.IntN(40)) * time.Second
	}
	switch dice, writes := rand.New(rand.NewPCG(seed, 4)).IntN(8), profile == "config" ||
		profile == "denied"; {
	case writes && dice%2 == 0, dice == 0:
		p.settings.config = plainConfig
	case writes, dice == 1:
		p.settings.config = loggedConfig
	}
	p.settings.short(profile, seed)
	p.settings.delay(seed)
	p.checks()
	p.settings.rates(profile, seed)
	p.load()
	pick := func() []string {
		kinds := slices.Clone(allFates)
		r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		return kinds[:1+r.IntN(5)]
	}
	p.weather = weather{[]float64{0, 0, 0.005, 0.02, 0.05}[r.IntN(5)], pick()}
	if profile == "gentle" {
		p.weather = weather{[]float64{0, 0.01, 0.03}[r.IntN(3)], []string{busy, failed, spurious,
			replyReset, backward, noIndex, away}}
	}
	if profile == "aimed" && seed%2 == 0 {
		p.weather = weather{}
	}
	if profile == "drained" {
		p.weather, p.settings.stop = weather{}, 16*time.Second
	}
	if profile == "fair" || profile == "waited" {
		p.weather = weather{}
		p.settings.guarded = p.settings.guarded && seed%2 == 0 && profile == "fair"
	}
	hard := rand.New(rand.NewPCG(seed, 5)) // dice of its own, as above
	relapse := func(r *rand.Rand) episode {
		return episode{
			kind: "relapse", at: time.Duration(r.IntN(int(p.span))), dur: 32*time.Second +
				time.Duration(r.IntN(int(30*time.Second))),
			who: r.Perm(members)[:1+r.IntN(members-1)], how: []string{"refused", "silent",
				"destroyed"}[r.IntN(3)], n: r.IntN(1 << 20),
		}
	}
	if profile == "hard" && hard.IntN(3) == 0 {
		p.episodes = append(p.episodes, relapse(hard))
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
		e := episode{kind: kinds[r.IntN(len(kinds))], at: seconds(0, p.span.Seconds()),
			n: r.IntN(1 << 20)}
		switch e.kind {
		case "storm":
			e.who, e.dur, e.weather = some(), seconds(1, 30), weather{0.05 + 0.5*r.Float64(),
				pick()}
		case "denials": // a try that arrives late, and the next one is refused
			e.who, e.dur, e.weather = some(), seconds(10, 60),
				weather{0.6, []string{sentLate, denied}}
		case "cut":
			e.who, e.dur, e.how = some(), seconds(1, 45), []string{"refused", "silent",
				"one-way"}[r.IntN(3)]
		case "deaf":
			e.who, e.dur = one(), seconds(5, 45)
		case "freeze", "suspend":
			e.who, e.dur = one(), seconds(1, 60)
		case "hang":
			e.who = one()
			drawHang(&e, r)
		case "kill":
			e.who, e.dur, e.how = one(), seconds(0.1, 45), []string{"before-write", "after-write",
				"write-in-flight", "now"}[r.IntN(4)]
		case "takeover": // the leader is killed around a write of a move that is under way
			e.dur, e.how = seconds(0.1, 30), []string{"before-write", "after-write",
				"write-in-flight"}[r.IntN(3)]
			e.n = r.IntN(8)
		case "leave", "join":
			e.who, e.dur = one(), seconds(1, 40)
		case "destroy":
			e.who = one()
		case "stubborn":
			e.who, e.dur, e.how = one(), seconds(5, 60), []string{"fails", "panics"}[r.IntN(2)]
		case "blind": // the session is ended behind a link that is cut at that moment
			e.who, e.dur, e.how = one(), seconds(8, 40), []string{"silent", "refused"}[r.IntN(2)]
		case "orphan": // the record is deleted behind a link on which only renewals pass
			e.who, e.dur = one(), seconds(12, 40)
		case "aimed":
			e.who = one()
			drawAim(&e, r)
		case "stray":
			e.who, e.how = one(), []string{"", "depose"}[r.IntN(2)]
		case "elder-key":
			e.dur = seconds(8, 30)
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
		case "lost-again":
			e.who, e.dur = one(), seconds(20, 40)
		case "strange":
			e.who, e.how = one(), []string{"member-delete", "member-write", "leader-delete",
				"leader-write", "leader-cas", "ack-delete", "ack-write", "odd-keys"}[r.IntN(8)]
			if profile == "unacked" {
				e.how = "ack-delete"
			}
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
			e.who, e.dur, e.weather = some(), seconds(0.5, 4),
				weather{0.5, []string{refused, busy, failed, away, replyReset, garbage, failedDone,
					denied}}
		case "relapse":
			// members are away until their items have moved, or lose their sessions; then Consul
			// restarts, and renews those that are over
			e = relapse(r)
		case "restore":
			e.dur = seconds(1, 40) // how old the snapshot is
		case "reset":
			e.dur = seconds(1, 15) // until the operator has put the workload back
		}
		p.episodes = append(p.episodes, e)
	}
	p.strangers()
	p.hosts()
	p.drained()
	p.wished()
	p.remade()
	p.settings.limit(profile, seed)
	switch profile {
	case "fair":
		p.beside(70)
	case "waited": // for one member, which does not come back in time
		p.settings.twice, p.episodes = 0, p.episodes[:1]
		p.episodes[0].at, p.episodes[0].dur = 10*time.Second, p.span
		p.beside(100)
	case "hard", "config", "forgetful":
		p.beside(25)
	case "drained":
		p.oneByOne()
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

// checks draws, by dice of its own, whether members have a health check, and whether the agents
// take no more reports from some moment on, for good.
func (p *plan) checks() {
	p.settings.check = rand.New(rand.NewPCG(p.seed, 21)).IntN(2) == 0
	if dice := rand.New(rand.NewPCG(p.seed, 23)); p.settings.check && dice.IntN(5) == 0 &&
		p.profile != "gentle" { // it ends sessions
		p.settings.noReports = time.Duration(1 + dice.Int64N(int64(p.span)))
	}
}

// memberIDs are ids of which each is the beginning of others.
func memberIDs(n int) []string {
	ids := []string{"m", "m1", "m10", "m11", "m100"}
	for i := 2; len(ids) < n; i++ {
		ids = append(ids, fmt.Sprintf("m%d", i*7))
	}
	return ids[:n]
}

// short draws, by dice of its own, a lease shorter than the TTL. Work stops within the margin,
// which stays. Gentle runs have a bound for what silence costs nobody, which is that of the TTL.
func (s *settings) short(profile string, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 12))
	if dice.IntN(3) == 0 && profile != "gentle" {
		s.lease = 3*s.margin + time.Duration(dice.Int64N(int64(s.ttl-3*s.margin)))
	}
}

// limit draws, by dice of its own, how often work may fail before its item is given up, and which
// items fail everywhere. Gentle runs may cost nobody anything; in the others work fails by itself,
// too.
func (s *settings) limit(profile string, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 40))
	sick := profile == "sick" || profile == "remade"
	if profile == "gentle" || !sick && dice.IntN(4) > 0 {
		return
	}
	s.restarts, s.window = 1+dice.IntN(4), time.Duration(20+dice.IntN(580))*time.Second
	if dice.IntN(3) > 0 || sick {
		s.sick = 3 + dice.IntN(8)
	}
}

// delay draws, by dice of its own, a lock-delay where there is none yet: from 1 ms, which is the
// shortest that Consul keeps, to 4 s.
func (s *settings) delay(seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 24))
	if s.lockDelay != 0 || dice.IntN(3) == 0 {
		return
	}
	s.lockDelay = time.Millisecond << dice.IntN(13)
}
