package simulation_test

import (
	"cmp"
	"fmt"
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
	// of docs/faults.md, of which the episodes are; nil: of none in particular
	faults []int
}

type settings struct {
	ttl, soak, merge, workerSoak, margin time.Duration
	budget                               int
	lag                                  time.Duration // how long work takes to stop, at the most
	// members know whether a predecessor's process lives
	knows bool
	// a twin's machine says that it is the first one's: none of the other's processes is there
	copied bool
	// how long items wait for a member that stopped cleanly
	keep time.Duration
	// each has a guard, which says goodbye for it when it was killed
	guarded bool
	// the TTL of every other process of a member; 0: all have the same
	long  time.Duration
	check bool // members have a health check, and their sessions end with it
	// each member's machine has an agent of its own, whose end its sessions do not survive
	agents bool
	// from when on no agent takes a report to a check any more; 0: they always do
	noReports time.Duration
	// the lease of every other process of a member; 0: all count on their TTL
	lease time.Duration
	// how many of the requests arrive a second time
	twice float64
	// how many of the renewals are answered from the past
	past float64
	slow float64 // the rate of slow clocks; 0: there are none
	// its host writes config values: see plainConfig
	config string
	// the size of large payloads, in bytes; 0: there are none
	payload int
	// what a member's line carries, in bytes a second; 0: all
	line int
	// Grace and BrakeHold, in TTLs; 0: their defaults
	grace, brake float64
	lockDelay    time.Duration // 0: the default
	stop         time.Duration // StopTimeout; 0: 5 s
	// how often work may fail within window before its item is given up; 0: for ever. And every
	// sick-th item fails everywhere; 0: none does.
	restarts int
	window   time.Duration
	sick     int
	zones    bool // members are in two zones
	changes  bool // payloads are changed, and running work hears of it
	versions bool // each process of a member has another version than the one before
}

// longest is the longest lease, by a slow clock if there are any.
func (s settings) longest() time.Duration {
	if d := max(s.ttl, s.long); s.slow == 0 {
		return d
	} else {
		return time.Duration(float64(d) / s.slow)
	}
}

// stopping is how long what runs may take to stop.
func (s settings) stopping() time.Duration {
	return cmp.Or(s.stop, 5*time.Second)
}

// longer is how much more than by default is waited for one that has gone.
func (s settings) longer() time.Duration {
	return time.Duration(max(0, s.grace-1)*float64(s.longest())) + 2*s.lockDelay
}

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
	spurious   = "spurious"  // a poll returns without a change
	stale      = "stale"     // a read is answered by a server that lags behind
	cutShort   = "cut-short" // done, and the answer breaks off; no weather of a profile has it
)

var allFates = []string{refused, silent, replyLost, replyReset, replyLate, sentLate, busy, failed,
	failedDone, away, denied, garbage, backward, noIndex, spurious, stale}

// episode is one trouble, from at for dur.
type episode struct {
	kind    string
	at, dur time.Duration
	who     []int // members, by their place
	how     string
	n       int
	weather weather
	fault   int // of which it is; 0: of none in particular
}

// whoLeads stands for the member that leads when an episode begins.
const whoLeads = -1

func (e episode) String() string {
	s := fmt.Sprintf("%7.2fs +%.2fs %s", e.at.Seconds(), e.dur.Seconds(), e.kind)
	if e.fault != 0 {
		s += fmt.Sprintf(" (fault %d)", e.fault)
	}
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

// losesWrites tells whether Consul is restored or reset.
func (p plan) losesWrites() bool {
	for i, e := range p.episodes {
		if (e.kind == "restore" || e.kind == "reset") && p.plays(i) {
			return true
		}
	}
	return p.profile == "forgetful"
}

func (p plan) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d, profile %s: members %v, %d items, %+v, faults for %v", p.seed,
		p.profile, p.ids, p.items, p.settings, p.span)
	if p.faults != nil {
		fmt.Fprintf(&s, "\n  faults %s", p.named())
	}
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
	s := fmt.Sprintf(
		"go test ./test/simulation -run 'TestSeeds$' -v -timeout 120s -sim.seed=%d -sim.profile=%s",
		p.seed, p.profile)
	if *flagMutation != "" {
		s += " -overlay bin/mutations/overlay.json -tags coordd_mutations -sim.mutation=" + *flagMutation
	}
	if *flagFaults != "" {
		s += " -sim.faults=" + *flagFaults
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
