//go:build unix

package guard

import "time"

// Replacing is for tests.
var Replacing = replacing

// SweepLimit is for tests.
const SweepLimit = sweepLimit

// StuckAfter has Run give up after that time, for tests.
func (g *Guard) StuckAfter(d time.Duration) { g.stuckAfter = d }
