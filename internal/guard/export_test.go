//go:build unix

package guard

import (
	"os"
	"syscall"
	"time"
)

// StuckAfter has Run give up after that time, for tests.
func (g *Guard) StuckAfter(d time.Duration) { g.stuckAfter = d }

// Undying has SIGKILL do to the guard process what it does to one that the kernel does not let end:
// it runs nothing of its own any more, and is there.
func (g *Guard) Undying() {
	g.kill = func(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
}

// Taken reports whether the guard process has taken in the newest lease, and so all that was set
// before it.
func (g *Guard) Taken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == nil {
		return false
	}
	g.link.mu.Lock()
	defer g.link.mu.Unlock()
	return g.link.asked != 0 && g.link.answered == g.link.asked
}
