package facts

import "time"

// Lease says until when a session's holder may count on it without asking:
// Start, the moment just before the last acknowledged renewal was sent, plus TTL.
// Consul never ends a session by itself before its TTL is over, and counts from
// the renewal's arrival, which is later than its sending; so a holder
// that stops with the lease has stopped before anyone can take over. The zero Lease is over.
type Lease struct {
	Start time.Time
	TTL   time.Duration
}

// Left returns how much of the lease is left at now, zero or less once it is over.
// Where the monotonic and the wall clock disagree, the one by which more time has
// passed counts: Linux's monotonic clock stands still while the host is suspended,
// and a wall clock may be set back.
func (l Lease) Left(now time.Time) time.Duration {
	if l.Start.IsZero() {
		return 0
	}
	elapsed := max(now.Sub(l.Start), now.Round(0).Sub(l.Start.Round(0)))
	return l.TTL - elapsed
}

// Valid tells whether the lease has more than margin left at now.
func (l Lease) Valid(now time.Time, margin time.Duration) bool { return l.Left(now) > margin }
