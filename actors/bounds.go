package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/actors/internal/member"
	"github.com/coordd/coordd/internal/store"
)

// Formula is a worst case as the sum of its parts, so that what is printed and what is reckoned
// with are the same.
type Formula []Part

// Part is one part of a worst case.
type Part struct {
	Name  string
	Each  time.Duration
	Times int // less than 0: it is taken off
}

// Total is the worst case itself.
func (f Formula) Total() time.Duration {
	var total time.Duration
	for _, p := range f {
		total += p.total()
	}
	return total
}

// String is the sum in words: check-ttl 6.5s + lease 10s + 4 x merge 250ms.
func (f Formula) String() string {
	var b strings.Builder
	for i, p := range f {
		n := p.Times
		switch {
		case n < 0 && i > 0:
			b.WriteString(" - ")
			n = -n
		case i > 0:
			b.WriteString(" + ")
		}
		if n != 1 {
			fmt.Fprintf(&b, "%d x ", n)
		}
		fmt.Fprintf(&b, "%s %v", p.Name, p.Each.Round(time.Millisecond))
	}
	return b.String()
}

func (p Part) total() time.Duration { return time.Duration(p.Times) * p.Each }

func once(name string, d time.Duration) Part { return Part{Name: name, Each: d, Times: 1} }

// Plus is the sum of both.
func (f Formula) Plus(more ...Part) Formula {
	return append(append(Formula(nil), f...), more...)
}

// Bounds are the worst cases that follow from the settings, with the parts that they add up from.
// Each answer of Consul takes 60 ms at the most: of a slower one a take-over waits for 5 answers,
// from a lost leader for 15. And Consul keeps its own leader meanwhile: an election of Consul's
// starts every session's time anew, which adds up to 2 x TTL to Detect and to what contains it.
type Bounds struct {
	// Detect is the time from the death of a member's process to the end of its session: CheckTTL,
	// or without a check 2 x TTL, which is Consul's rule.
	Detect Formula
	// HandOver is the time from the end of a member's work, at a clean stop, to the start of its
	// items elsewhere, and to that of an item that is added. What is taken over from a member that
	// died is not soaked.
	HandOver Formula
	// TakeOver is the time from a member's death to the start of its items elsewhere, when nobody
	// hands them over as coordd's guard does for a coordd that was killed. TakeOverUnchecked is the
	// same for a member without a check.
	TakeOver, TakeOverUnchecked Formula
	// TakeOverMachine is TakeOver when the machine of its Consul agent goes as well. Then it is
	// Consul's gossip that notices, which took 5.5 to 7.3 s with its settings for a LAN: 8 s (2 x
	// TTL if that is shorter). Without a check it is TakeOver.
	TakeOverMachine Formula
	// TakeOverLeft is that from the end of a member's session when somebody ended it before its
	// time: its agent left, or an operator ended it.
	TakeOverLeft Formula
	// TakeOverElsewhere is TakeOver for one that is started again under its id on another host
	// before its items move: they wait for it.
	TakeOverElsewhere Formula
	// Slack is what is reckoned with for polls and calls, in each of these; in HandOver, which
	// polls nothing, for calls alone.
	Slack Formula
	// OfLeader is what comes on top of each of them when it is the leader that died.
	OfLeader Formula
	// TakeOverLead is the time from a leader's death to the start of another member's Lead, when
	// nobody resigns for it and nobody knows that it is dead.
	TakeOverLead Formula
	// RideThrough is how long Consul may be silent without anybody losing work or leadership. Its
	// retry is one more try of a renewal. With a check it is 5/6 of CheckTTL, if that is shorter.
	RideThrough Formula
	// StopsWithin is the time from the last renewal that was answered to the order to stop.
	StopsWithin Formula
}

// calls is what the calls to Consul of one take-over may take in all.
const calls = time.Second

// Bounds returns the worst cases of the settings, defaults filled in.
func (c Config) Bounds() Bounds {
	c = c.withDefaults()
	unchecked := Part{Name: "ttl", Each: c.TTL, Times: 2}
	detect, machine := unchecked, unchecked
	if c.CheckTTL != NoCheck {
		detect = once("check-ttl", c.CheckTTL)
		if machine.total() >= store.Gossip {
			machine = once("gossip", store.Gossip)
		}
	}
	wait := once("lease", c.Lease)
	if c.Grace > c.Lease {
		wait = once("grace", c.Grace)
	}
	merge, soak := Part{Name: "merge", Each: c.Merge, Times: 4}, once("worker-soak", c.WorkerSoak)
	slack := Formula{once("poll", leader.AbsencePoll), once("calls", calls)}
	after := Formula{wait, merge}.Plus(slack...)
	takeOver := Formula{detect}.Plus(after...)
	vacant := Formula{once("lock-delay", c.LockDelay),
		once("lock-poll", member.LockPoll(c.LockDelay, 0))}
	rides := Formula{once("lease", c.Lease), {Name: "renew", Each: c.Renew, Times: -1},
		{Name: "lease-margin", Each: c.LeaseMargin, Times: -1},
		{Name: "retry", Each: c.Lease / 20, Times: -1}}
	if c.CheckTTL != NoCheck {
		reported := Formula{once("check-ttl", c.CheckTTL),
			{Name: "report", Each: store.ReportEvery(c.CheckTTL) / 3, Times: -4}}
		if reported.Total() < rides.Total() {
			rides = reported
		}
	}
	return Bounds{
		Detect:   Formula{detect},
		HandOver: Formula{merge, soak, slack[1]}, Slack: slack, TakeOver: takeOver,
		TakeOverElsewhere: takeOver.Plus(once("lease", c.Lease), soak),
		TakeOverMachine:   Formula{machine}.Plus(after...),
		TakeOverUnchecked: Formula{unchecked}.Plus(after...),
		TakeOverLeft:      after,
		OfLeader:          vacant,
		TakeOverLead: Formula{detect, once("lease", c.Lease)}.Plus(vacant...).Plus(
			once("calls", calls)),
		RideThrough: rides,
		StopsWithin: Formula{once("lease", c.Lease),
			{Name: "lease-margin", Each: c.LeaseMargin, Times: -1}},
	}
}
