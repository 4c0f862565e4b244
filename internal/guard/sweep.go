//go:build unix

package guard

import (
	"sync/atomic"
	"time"
)

const (
	// sweepAfter is how long after SIGKILL a command is looked for everywhere: its processes may
	// have one for a parent that does not die, and then nobody passes them on to this one.
	sweepAfter = 20 * time.Millisecond
	// sweepPause is when that is done again, twice as long after each time up to mostSweepPause.
	sweepPause     = time.Second
	mostSweepPause = 30 * time.Second
)

// sweep kills what is left of commands that were killed and do not end, wherever it is. A look at
// all processes takes long on a large host, and leases do not wait.
type sweep struct {
	busy atomic.Bool
	all  census // of the goroutine that is busy
}

// begin sweeps in the background, unless that is being done. The ids are never another command's.
func (s *sweep) begin(token string, ids []uint64) {
	if s.busy.Swap(true) {
		return
	}
	go func() {
		defer s.busy.Store(false)
		killCommands(&s.all, token, ids)
	}()
}
