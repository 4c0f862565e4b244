package actors_test

import (
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// unlogged holds writes that no record in the event log tells of to what leaders said of the log:
// one that cannot read or write it says so, and then leaves it out.
type unlogged struct {
	mu    sync.Mutex
	since time.Time // when one said so first; zero: none has
	done  []unsaid
}

// unsaid is a write without a record.
type unsaid struct {
	at    time.Time
	fault string
}

func (u *unlogged) without(at time.Time, fault string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = append(u.done, unsaid{at, fault})
}

// faults are the writes without a record before anybody said so: one that was tried without the
// record is answered first. A log is written a little later than it is told: ask when the members
// have ended.
func (u *unlogged) faults() (faults []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.done {
		if u.since.IsZero() || x.at.Before(u.since.Add(-store.DefaultCallTimeout)) {
			faults = append(faults, x.fault)
		}
	}
	return faults
}
