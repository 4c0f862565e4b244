package main

import (
	"time"

	"github.com/coordd/coordd/internal/history"
)

// This process looks at the clock every pauseCheck. It was paused if it has not looked for longer
// than pauseLimit, or its lease if that is shorter. A process that only waits for a busy machine
// looks sooner.
const (
	pauseCheck = time.Second
	pauseLimit = 5 * time.Second
)

// pauseDetector knows the last pause of this process: it was frozen, or its host was suspended. The
// process hears only after the pause of what ended during it.
type pauseDetector struct {
	checked, from, to time.Time
	limit             time.Duration
}

// check notes that the process runs at now.
func (p *pauseDetector) check(now time.Time) {
	if passed(p.checked, now) > p.limit {
		p.from, p.to = p.checked, now
	}
	p.checked = now
}

// ended returns when something ended of which the process hears at now.
func (p *pauseDetector) ended(now time.Time) time.Time {
	if !p.to.IsZero() && passed(p.to, now) <= history.Notice {
		return p.from
	}
	return now
}

// passed is the time between two looks at the clock. The monotonic clock stands still while the
// host is suspended, and the wall clock can be set: the one that says more counts.
func passed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
