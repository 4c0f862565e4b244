package simulation_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// TestMain plays on one processor, unless -cpu says otherwise, and lets the heap grow: a bubble's
// goroutines wait for each other all the time, and a run holds a few megabytes. On two processors
// each run takes two and a half times the processor time, for waking and for collecting garbage.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}
