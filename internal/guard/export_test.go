//go:build unix

package guard

import (
	"os"
	"syscall"
	"time"
)

// Replacing is for tests.
var Replacing = replacing

// SweepLimit is for tests.
const SweepLimit = sweepLimit

// StuckAfter has Run give up after that time, for tests.
func (g *Guard) StuckAfter(d time.Duration) { g.stuckAfter = d }

// Lack is for how long no guard process has worked.
func (g *Guard) Lack() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lack.sum
}

// Undying has SIGKILL do to the guard process what it does to one that the kernel does not let end:
// it runs nothing of its own any more, and is there.
func (g *Guard) Undying() {
	g.kill = func(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
}

// Waiting counts the Execs that wait for a guard process.
func (g *Guard) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}
