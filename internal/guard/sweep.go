//go:build unix

package guard

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// sweepAfter is how long after SIGKILL a command is looked for everywhere, or a sixteenth of
	// what is left of its lease then: its processes may have one for a parent that does not die,
	// and then nobody passes them on to this one. That is done again, twice as long after each time
	// up to mostSweepPause.
	sweepAfter     = 20 * time.Millisecond
	mostSweepPause = 30 * time.Second
)

// sweep kills what is left of commands that were killed and do not end, wherever it is. A look at
// all processes takes long on a large host, and leases do not wait.
type sweep struct {
	busy  atomic.Bool
	ended chan struct{} // has one when a round has ended; nil: nobody wants to know
	// of the goroutine that is busy
	all     census
	foreign map[int]uint64 // processes that the last round saw to be no command's, and their starts

	mu sync.Mutex
	// processes that had SIGKILL in the last round, and when each began
	sent map[int]uint64
	// commands of which a round met none but those that had it before; and whether it was whole
	done map[uint64]bool
}

// begin sweeps in the background, and returns false if that is being done. The ids are never
// another command's; with none it only gets to know the processes that there are, so that the next
// round is quick. reached tells of a process whether the command's SIGKILL was sent to it before.
func (s *sweep) begin(token string, ids []uint64, reached func(pid int, id uint64) bool) bool {
	if s.busy.Swap(true) {
		return false
	}
	go func() {
		s.look(token, ids, reached)
		s.busy.Store(false)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}()
	return true
}

func (s *sweep) look(token string, ids []uint64, reached func(pid int, id uint64) bool) {
	s.mu.Lock()
	was := s.sent
	s.mu.Unlock()
	sent, fresh := map[int]uint64{}, map[uint64]bool{}
	whole, err := s.round(token, ids, func(pid int, began, id uint64, kill func() error) {
		before, had := was[pid]
		had = had && before == began || reached(pid, id)
		// What may not be killed has nothing to wait for: it may start others at any time.
		if err := kill(); !had && !errors.Is(err, syscall.EPERM) {
			fresh[id] = true
		}
		sent[pid] = began
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ids) > 0 {
		s.sent = sent
	}
	for _, id := range ids {
		if err != nil || fresh[id] {
			continue
		}
		if s.done == nil {
			s.done = map[uint64]bool{}
		}
		s.done[id] = s.done[id] || whole
	}
}

// swept is what the rounds have come to.
type swept struct {
	done map[uint64]bool
	sent map[int]uint64
}

// result is to be asked for before the look at the strays that allOf is given.
func (s *sweep) result() swept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return swept{maps.Clone(s.done), s.sent}
}

// allOf tells whether a round, begun since the command was killed, has met nothing of it but what
// had SIGKILL already, or may not have it. A round that was not whole may have missed what a
// process that ended has passed its work on to. That has lost its parent: it is among the strays.
func (s swept) allOf(id uint64, strays []int) bool {
	whole, done := s.done[id]
	return done && (whole || !slices.ContainsFunc(strays, func(pid int) bool {
		_, met := s.sent[pid]
		return !met
	}))
}

// forget is for a command that has ended.
func (s *sweep) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, id)
}
