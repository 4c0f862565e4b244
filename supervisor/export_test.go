package supervisor

import (
	"context"
	"time"
)

// Waited is how long ago one that started at a time and was asked to stop later had been asked.
func Waited(started, asked, now time.Time) time.Duration {
	r := &run{c: &child{l: &loop{began: started}}}
	r.ask(asked)
	return r.waited(now)
}

// BeforeItsEndIsTold has f called when the child that ctx belongs to has ended, before anybody is
// told. It is called by the child, before that says that it is ready.
func BeforeItsEndIsTold(ctx context.Context, f func()) {
	r := runOf(ctx)
	cancel := r.cancel
	r.cancel = func(cause error) {
		cancel(cause)
		if r.gone.isSet() {
			f()
		}
	}
}

// HoldCounts lets nobody count, nor move counts, until it is released.
func HoldCounts(s *Supervisor) (release func()) {
	s.hub.tally.mu.Lock()
	return s.hub.tally.mu.Unlock
}
