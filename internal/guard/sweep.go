//go:build unix

package guard

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sweepAfter is how long after SIGKILL a command is looked for everywhere: its processes may
	// have one for a parent that does not die, and then nobody passes them on to this one. That is
	// done again, twice as long after each time up to mostSweepPause.
	sweepAfter     = 20 * time.Millisecond
	mostSweepPause = 30 * time.Second
)

// sweep kills what is left of commands that were killed and do not end, wherever it is. A look at
// all processes takes long on a large host, and leases do not wait.
type sweep struct {
	busy atomic.Bool
	// of the goroutine that is busy
	all  census
	sent map[int]uint64 // processes that had SIGKILL in the last round, and when each began

	mu   sync.Mutex
	done map[uint64]bool // commands of which a whole round met none but those
}

// begin sweeps in the background, unless that is being done. The ids are never another command's.
func (s *sweep) begin(token string, ids []uint64) {
	if s.busy.Swap(true) {
		return
	}
	go func() {
		defer s.busy.Store(false)
		was, fresh := s.sent, map[uint64]bool{}
		s.sent = map[int]uint64{}
		whole := killCommands(&s.all, token, ids, func(pid int, began, id uint64) {
			if before, ok := was[pid]; !ok || before != began {
				fresh[id] = true
			}
			s.sent[pid] = began
		})
		if !whole {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			if !fresh[id] {
				if s.done == nil {
					s.done = map[uint64]bool{}
				}
				s.done[id] = true
			}
		}
	}()
}

// isDone tells whether a whole round, begun since the command was killed, has met nothing of it but
// what had SIGKILL already.
func (s *sweep) isDone(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[id]
}

// forget is for a command that has ended.
func (s *sweep) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, id)
}
