package actors

import (
	"time"

	"github.com/coordd/coordd/actors/internal/leader"
	"github.com/coordd/coordd/actors/internal/member"
)

// Bounds are the worst cases that follow from the settings, for a Consul that
// answers within a second and keeps its own leader meanwhile: an election of
// Consul's starts every session's time anew, which adds 2 x TTL to the first two.
type Bounds struct {
	// Detect is the time from the death of a member's process to the end of its session: the check's
	// TTL, or without a check 2 x TTL, which is Consul's rule.
	Detect time.Duration
	// TakeOver is the time from a member's death to the start of its items elsewhere when nobody hands
	// them over (coordd's guard does for a coordd that was killed): Detect; its lease, or the grace if that is longer; planning 4 x merge; the
	// worker soak; a poll of half a second and a second for calls.
	TakeOver time.Duration
	// TakeOverLeader is the same for the leader's death: the lock-delay and a poll of the lock come
	// before.
	TakeOverLeader time.Duration
	// TakeOverMachine is TakeOver when the machine of its Consul agent goes as well: then it is
	// Consul's gossip that notices, which took 5.5 to 7.3 s with its settings for a LAN, and 8 s are
	// reckoned with. Without a check it is TakeOver.
	TakeOverMachine time.Duration
	// TakeOverLead is the time from a leader's death to the start of another member's Lead, when
	// nobody resigns for it and nobody knows that it is dead: Detect; the lock-delay
	// and a poll of the lock; a lease; a second for calls.
	TakeOverLead time.Duration
	// RideThrough is how long Consul may be silent without anybody losing work or
	// leadership: lease - renew - lease margin - one retry of a renewal; and with a check five
	// sixths of its TTL, if that is shorter.
	RideThrough time.Duration
	// StopsWithin is the time from the last renewal that was answered to the order to stop: lease -
	// lease margin.
	StopsWithin time.Duration
}

// gossip is how long Consul's agents take to notice that one of them has gone: serfHealth.
const gossip = 8 * time.Second

// Bounds computes the worst cases of the settings, defaults filled in.
func (c Config) Bounds() Bounds {
	c = c.withDefaults()
	detect, machine := 2*c.TTL, 2*c.TTL
	if c.CheckTTL != NoCheck {
		detect, machine = c.CheckTTL, gossip
	}
	b := Bounds{
		Detect: detect,
		TakeOver: detect + max(c.Grace, c.Lease) + 4*c.Merge + c.WorkerSoak + leader.AbsencePoll +
			time.Second,
		RideThrough: max(0, c.Lease-c.Renew-c.LeaseMargin-c.Lease/20),
		StopsWithin: c.Lease - c.LeaseMargin,
	}
	b.TakeOverLeader = b.TakeOver + c.LockDelay + member.LockPoll(c.LockDelay)
	if c.CheckTTL != NoCheck {
		b.RideThrough = min(b.RideThrough, c.CheckTTL-2*member.ReportEvery(c.CheckTTL))
	}
	b.TakeOverMachine = b.TakeOver - detect + machine
	b.TakeOverLead = detect + c.Lease + c.LockDelay + member.LockPoll(c.LockDelay) + time.Second
	return b
}
