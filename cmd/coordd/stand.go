package main

import (
	"time"

	"github.com/coordd/coordd/internal/history"
)

// A process stood still when nothing was heard of it for standLimit although it looks at the clock
// every standPulse. One that merely waits for a busy machine is heard of sooner.
const (
	standPulse = time.Second
	standLimit = 5 * time.Second
)

// stand is when this process stood still last: frozen, or on a host that was suspended. What ends
// meanwhile it hears of when it goes on.
type stand struct{ seen, from, to time.Time }

// look notes that the process runs at now.
func (s *stand) look(now time.Time) {
	if passed(s.seen, now) > standLimit {
		s.from, s.to = s.seen, now
	}
	s.seen = now
}

// ended is when that ended of which the process hears at now.
func (s *stand) ended(now time.Time) time.Time {
	if !s.to.IsZero() && passed(s.to, now) <= history.Notice {
		return s.from
	}
	return now
}

// passed is the time between two looks at the clock. Of the monotonic clock, which stands still
// while the host is suspended, and the wall clock, the one by which it is more counts.
func passed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
