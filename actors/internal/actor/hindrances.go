package actor

import (
	"sync"
	"time"
)

// Hindrances are what the actors of a term try in vain, and since when: what Consul, or something
// before it, does not do for this leader. It may do it for another one. The zero value is ready.
// Safe for concurrent use.
type Hindrances struct {
	mu    sync.Mutex
	term  uint64
	since map[string]time.Time // by what is tried
}

// Failed takes in that what was tried in a term has failed.
func (h *Hindrances) Failed(term uint64, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != term || h.since == nil {
		h.term, h.since = term, map[string]time.Time{}
	}
	if h.since[what].IsZero() {
		h.since[what] = time.Now()
	}
}

// Worked takes in that it has succeeded.
func (h *Hindrances) Worked(term uint64, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == term {
		delete(h.since, what)
	}
}

// Longest is what has failed for the longest time in a term, each time; the empty string if nothing
// does.
func (h *Hindrances) Longest(term uint64) (what string, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != term {
		return "", time.Time{}
	}
	for w, at := range h.since {
		if what == "" || at.Before(since) {
			what, since = w, at
		}
	}
	return what, since
}
