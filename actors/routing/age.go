package routing

import (
	"time"

	"github.com/coordd/coordd/internal/facts"
)

// age says as of when the table is known to be right. A generation is one
// reading of everything; a new one begins when the long polls of the one before cannot be trusted.
type age struct {
	gen   int
	began time.Time // just before the reads of this generation began, and Consul answered since
	asOf  time.Time // zero: never

	membersGen, acksGen     int
	membersIndex, acksIndex uint64
	pulse                   pulse
}

// pulse is an answer of Consul's that the views have not all caught up with yet. Zero: there is
// none.
type pulse struct {
	sent          time.Time // when it was asked for
	members, acks uint64    // the indexes of members/ and acks/
	// Whose shares were older than their acks when the watch of acks/ had caught up, and those
	// acks' indexes: an item may have gone from them since. Nil until then.
	awaited map[string]uint64
}

// caughtUp tells whether the watches of members/ and acks/ have seen what the pulse saw.
func (a *age) caughtUp() bool {
	return a.acksIndex >= a.pulse.acks && a.membersIndex >= a.pulse.members
}

// fresh counts the age by the monotonic and the wall clock, whichever says more, as leases do.
func (a *age) fresh(now time.Time, limit time.Duration) bool {
	return facts.Lease{Start: a.asOf, TTL: limit}.Valid(now, 0)
}

// updateAge works out how a new view changes the age of the table. With the lock held.
func (t *table) updateAge() {
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
	t.agePulse(&a.pulse)
}

// agePulse counts the age from the pulse once the members, their acks and the shares that these
// speak of have been seen as they were then, or newer. With the lock held.
func (t *table) agePulse(p *pulse) {
	if p.sent.IsZero() || !t.age.caughtUp() {
		return
	}
	if p.awaited == nil {
		p.awaited = t.lateSharesLocked()
	}
	for id, ack := range p.awaited {
		if peer := t.peers[id]; peer == nil || !peer.registered || peer.seenUpTo() >= ack {
			delete(p.awaited, id)
		}
	}
	if len(p.awaited) > 0 {
		return
	}
	if t.age.asOf.Before(p.sent) {
		t.age.asOf = p.sent
	}
	*p = pulse{}
}

// begin opens a generation: everything is to be read anew, after began.
func (t *table) begin(began time.Time) int {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.age.gen++
	t.age.began, t.age.pulse = began, pulse{}
	t.updateAge()
	return t.age.gen
}

// generation is the newest one.
func (t *table) generation() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.age.gen
}

// pulseVerdict is what a pulse says of the table.
type pulseVerdict uint8

const (
	current pulseVerdict = iota
	behind               // a watch has missed something that an earlier pulse saw
	rewound              // Consul's index has gone back
)

// takePulse takes the answer to a pulse, when the newest view of acks/ had been of index known.
func (t *table) takePulse(p pulse, known uint64) pulseVerdict {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	a := &t.age
	switch read := a.acksGen == a.gen && a.membersGen == a.gen; {
	case read && p.acks < known:
		t.mu.Unlock()
		return rewound
	case read && !a.caughtUp(): // with the pulse before
		t.mu.Unlock()
		return behind
	}
	a.pulse = p
	t.updateAge()
	t.mu.Unlock()
	t.publish()
	return current
}

// ackIndex is the index of the newest view of acks/.
func (t *table) ackIndex() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.age.acksIndex
}

// lateShares are the members whose ack is newer than the view of their share: as a rule the same
// transaction wrote to both. The value is the ack's index.
func (t *table) lateShares() map[string]uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.lateSharesLocked()
}

// lateSharesLocked is lateShares with the lock held.
func (t *table) lateSharesLocked() map[string]uint64 {
	late := map[string]uint64{}
	for id, p := range t.peers {
		if p.registered && p.gen == t.age.gen && p.ackIndex > p.seenUpTo() {
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
