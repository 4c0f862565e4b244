package routing

import (
	"time"

	"github.com/coordd/coordd/messages"
)

// age says as of when the table is known to be right. A generation is one
// reading of everything; a new one begins when the long polls of the one before cannot be trusted.
type age struct {
	gen   int
	began time.Time // just before the reads of this generation began, and Consul answered since
	asOf  time.Time // zero: never

	membersGen, acksGen int
	acksIndex           uint64
	// A pulse that the watch of acks/ has not caught up with yet.
	pending      uint64
	pendingSince time.Time
}

// holds counts the age by the monotonic and the wall clock, whichever says more, as leases do.
func (a *age) holds(now time.Time, limit time.Duration) bool {
	return messages.Lease{Start: a.asOf, TTL: limit}.Valid(now, 0)
}

// settle works out what a new view means for the age of the whole. With the lock held.
func (t *table) settle() {
	a := &t.age
	t.unread = 0
	whole := a.gen > 0 && a.membersGen == a.gen && a.acksGen == a.gen
	for _, p := range t.peers {
		if p.gen == a.gen {
			continue
		}
		if p.registered {
			t.unread++
		}
		// A share that was never read names no owner; one that was read in an earlier
		// generation may name a wrong one. For the very first answers all must have been read.
		if len(p.share) > 0 || (p.registered && a.asOf.IsZero()) {
			whole = false
		}
	}
	if !whole {
		return
	}
	if a.asOf.Before(a.began) {
		a.asOf = a.began
	}
	if a.pending != 0 && a.acksIndex >= a.pending {
		if a.asOf.Before(a.pendingSince) {
			a.asOf = a.pendingSince
		}
		a.pending = 0
	}
}

// begin opens a generation: everything is to be read anew, after began.
func (t *table) begin(began time.Time) int {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.age.gen++
	t.age.began, t.age.pending = began, 0
	t.settle()
	return t.age.gen
}

// trusted is what the table says to a pulse.
type trusted uint8

const (
	current trusted = iota
	behind          // the watch of acks/ has missed something that an earlier pulse saw
	rewound         // Consul's index has gone back
)

// beat takes the answer to a pulse: Consul answered at index, to a question sent at sent, when the newest view of
// acks/ had been of index known.
func (t *table) beat(sent time.Time, index, known uint64) trusted {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	a := &t.age
	missed := a.pending != 0 && a.acksIndex < a.pending
	switch {
	case a.acksGen == a.gen && index < known:
		t.mu.Unlock()
		return rewound
	case a.acksGen == a.gen && missed:
		t.mu.Unlock()
		return behind
	}
	a.pending, a.pendingSince = index, sent
	t.settle()
	t.mu.Unlock()
	t.tell()
	return current
}

// ackIndex is the index of the newest view of acks/.
func (t *table) ackIndex() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.age.acksIndex
}

// laggards are the members whose ack is newer than the view of their share: as a rule the same transaction
// wrote to both. The value is the ack's index.
func (t *table) laggards() map[string]uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var late map[string]uint64
	for id, p := range t.peers {
		if p.registered && p.gen == t.age.gen && p.ackIndex > p.index {
			if late == nil {
				late = map[string]uint64{}
			}
			late[id] = p.ackIndex
		}
	}
	return late
}

// close makes the table know nothing: nobody keeps it any more.
func (t *table) close() {
	t.mu.Lock()
	t.age.asOf = time.Time{}
	t.mu.Unlock()
	t.changed.Set(struct{}{})
}

// since is as of when the table is known to be right.
func (t *table) since() time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.age.asOf
}
