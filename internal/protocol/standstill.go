package protocol

import (
	"errors"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// standstill notices that this process stood still. Somebody ticks once a second, so a tick that
// comes late says so. What failed meanwhile says nothing of Consul.
type standstill struct {
	mu     sync.Mutex
	tick   time.Time // zero: nobody ticks
	stood  time.Duration
	woke   time.Time // what fails within standstillCounts of it is laid to it
	unsaid bool
}

const (
	standstillLeast  = 3 * time.Second
	standstillCounts = 5 * time.Second
)

// look returns for how long the process has just stood still, by the clock that says more.
func (x *standstill) look(now time.Time) time.Duration {
	gap := max(now.Sub(x.tick), now.Round(0).Sub(x.tick.Round(0)))
	if !x.tick.IsZero() && gap > standstillLeast {
		x.stood, x.woke, x.unsaid, x.tick = gap, now, true, now
	}
	if now.Sub(x.woke) < standstillCounts {
		return x.stood
	}
	return 0
}

// Tick is called once a second, and with false when that ends. It waits for nothing.
func (s *Store) Tick(goesOn bool) {
	s.still.mu.Lock()
	defer s.still.mu.Unlock()
	now := time.Now()
	if s.still.look(now); goesOn {
		s.still.tick = now
	} else {
		s.still.tick = time.Time{}
	}
}

// Stood returns for how long this process has just stood still, mostly 0. The first call says so.
func (s *Store) Stood() time.Duration {
	s.still.mu.Lock()
	stood := s.still.look(time.Now()).Round(time.Second / 10)
	say := s.still.unsaid
	s.still.unsaid = false
	s.still.mu.Unlock()
	if say {
		s.log.Warn("was-suspended", "for", stood.String(), "why", "this process was stopped, its "+
			"machine suspended, or it got no processor", "then", "what lost its lease stops")
	}
	return stood
}

// Woke returns when this process was last found to have stood still. What it hangs in has hung
// since then at the most, for before that it did not run.
func (s *Store) Woke() time.Time {
	s.still.mu.Lock()
	defer s.still.mu.Unlock()
	s.still.look(time.Now())
	return s.still.woke
}

// Failed is [store.Store.Failed], but for what failed because this process stood still.
func (s *Store) Failed(what string, err error, retryIn time.Duration) {
	if s.Stood() == 0 || !errors.Is(err, store.ErrUnreachable) {
		s.Store.Failed(what, err, retryIn)
	}
}
