//go:build unix

package guard

import (
	"fmt"
	"time"
)

// stuckAfter is how long commands that an owner could run may be kept because none of its guard
// processes works: as long as an actor of a member may hang.
const stuckAfter = 45 * time.Second

// leastLooks is how many looks it takes at the least to say so: between two of them this process
// may have stood still.
const leastLooks = 5

// lack is the one clock of how long no guard process has worked although one was to: the next one
// cannot be started, has not said hello or cannot have the lock of BindLock, or nothing can be told
// of what the last one has left. It goes on from one Run to the next, and ends with a guard process
// that works.
type lack struct {
	sum  time.Duration
	last time.Time // of the looks
}

// works notes that a guard process works.
func (g *Guard) works() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lack = lack{last: time.Now()}
}

// lacks notes that none does, and returns for how long. The time since the last look counts unless
// it is said not to.
func (g *Guard) lacks(counts bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if counts && !g.lack.last.IsZero() {
		g.lack.sum += min(now.Sub(g.lack.last), g.stuckAfter/leastLooks)
	}
	g.lack.last = now
	return g.lack.sum
}

// lacksTooLong does the same, and tells whether to give up: a command waits, and somebody else may
// be able to run it. While none waits nobody is kept from anything, so the time begins anew: the
// next guard process may be about to start well.
func (g *Guard) lacksTooLong() bool {
	long := g.lacks(true) > g.stuckAfter
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 {
		g.lack.sum = 0
	}
	return long && g.waiting > 0
}

// unstarted returns err for Run, or gives up.
func (g *Guard) unstarted(err error) error {
	if g.lacksTooLong() {
		return g.give(fmt.Errorf("for %v no guard process has worked: %w", g.stuckAfter, err))
	}
	return fmt.Errorf("guard: %w", err)
}

// give makes err what Run returns from now on.
func (g *Guard) give(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = fmt.Errorf("guard: %w: %w", ErrStuck, err)
	return g.stuck
}
