package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// leastWait is how long a broadcast may wait for its members whoever else wants its place.
const leastWait = time.Second

// errMadeRoom is the cause for which a broadcast that has lost its place waits no longer.
var errMadeRoom = errors.New("another broadcast needed the place")

// broadcastPlaces are the places of the broadcasts that are under way. When all are taken, the
// broadcast that has waited for its members longest makes room for the next one. So it does not
// matter how many members hang, nor which of them each broadcast waits for; and a member that is
// only slow is waited for longer than one that hangs has been already.
type broadcastPlaces struct {
	max int

	mu      sync.Mutex
	used    int
	waiting []*broadcastPlace // for their members, the one that has waited longest first
}

// broadcastPlace is one of them, and whose it is.
type broadcastPlace struct {
	since  time.Time // that its broadcast waits
	giveUp context.CancelCauseFunc
	lost   bool // another broadcast has it
}

// acquire returns a place that is free, or that of the broadcast that has waited longest; nil: each
// of them has waited for less than leastWait.
func (b *broadcastPlaces) acquire() *broadcastPlace {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used < b.max {
		b.used++
		return &broadcastPlace{}
	}
	if len(b.waiting) == 0 || time.Since(b.waiting[0].since) < leastWait {
		return nil
	}
	longest := b.waiting[0]
	b.waiting = b.waiting[1:]
	longest.lost = true
	longest.giveUp(errMadeRoom)
	return &broadcastPlace{}
}

// wait is for the broadcast of p, which begins to wait for its members. Its wait can be ended by
// giveUp.
func (b *broadcastPlaces) wait(p *broadcastPlace, giveUp context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.since, p.giveUp = time.Now(), giveUp
	b.waiting = append(b.waiting, p)
}

// release gives p back, if nobody has it yet.
func (b *broadcastPlaces) release(p *broadcastPlace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.lost {
		return
	}
	b.used--
	if i := slices.Index(b.waiting, p); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}
