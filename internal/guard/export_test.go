//go:build unix

package guard

import "time"

// Replacing is for tests.
var Replacing = replacing

// SweepLimit is for tests.
const SweepLimit = sweepLimit

// StuckAfter has Run give up after that time, for tests.
func (g *Guard) StuckAfter(d time.Duration) { g.stuckAfter = d }

// Waiting counts the Execs that wait for a guard process.
func (g *Guard) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}
