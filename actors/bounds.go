package actors

import "time"

// Bounds are the worst cases that follow from the settings, as times (the log prints them in
// seconds). Each answer of Consul takes 60 ms at the most: of a slower one a take-over waits for 5
// answers, from a lost leader for 15. And Consul keeps its own leader meanwhile: an election of
// Consul's starts every session's time anew, which adds up to 2 x TTL to Detect and to what
// contains it. In the formulas:
//
//	grace     Grace, or Lease if that is longer
//	planning  4 x Merge + 0.5 s (a poll) + 1 s (calls)
//	lock      LockDelay, and a poll of the lock: a quarter of that, 50 ms at the least and 1 s at
//	          the most
type Bounds struct {
	// Detect is the time from the death of a member's process to the end of its session: CheckTTL,
	// or without a check 2 x TTL, which is Consul's rule.
	Detect time.Duration
	// TakeOver is the time from a member's death to the start of its items elsewhere, when nobody
	// hands them over as coordd's guard does for a coordd that was killed: Detect + grace +
	// planning.
	TakeOver time.Duration
	// TakeOverLeader is the same for the leader's death: TakeOver + lock.
	TakeOverLeader time.Duration
	// TakeOverMachine is TakeOver when the machine of its Consul agent goes as well. Then it is
	// Consul's gossip that notices, which took 5.5 to 7.3 s with its settings for a LAN: 8 s (2 x
	// TTL if that is shorter) + grace + planning. Without a check it is TakeOver.
	TakeOverMachine time.Duration
	// TakeOverLead is the time from a leader's death to the start of another member's Lead, when
	// nobody resigns for it and nobody knows that it is dead: Detect + lock + Lease + 1 s (calls).
	TakeOverLead time.Duration
	// RideThrough is how long Consul may be silent without anybody losing work or leadership:
	// Lease - Renew - LeaseMargin - Lease/20 (one more try of a renewal), 0 at the least; with a
	// check 5/6 of CheckTTL, if that is shorter.
	RideThrough time.Duration
	// StopsWithin is the time from the last renewal that was answered to the order to stop:
	// Lease - LeaseMargin.
	StopsWithin time.Duration
}

// Bounds computes the worst cases of the settings, defaults filled in. Formulas tells how they come
// about.
func (c Config) Bounds() Bounds {
	f := c.Formulas()
	return Bounds{
		Detect:          f.TakeOver[0].total(),
		TakeOver:        f.TakeOver.Total(),
		TakeOverLeader:  f.TakeOver.Total() + f.OfLeader.Total(),
		TakeOverMachine: f.TakeOverMachine.Total(),
		TakeOverLead:    f.TakeOverLead.Total(),
		RideThrough:     max(0, f.RideThrough.Total()),
		StopsWithin:     f.StopsWithin.Total(),
	}
}
