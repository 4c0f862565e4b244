//go:build unix

package guard

// Replacing is for tests.
var Replacing = replacing

// SweepLimit is for tests.
const SweepLimit = sweepLimit
