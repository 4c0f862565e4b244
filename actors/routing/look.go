package routing

import "time"

// look says what the table knows of an item at now.
func (t *table) look(item string, now time.Time) (Location, finding) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.age.fresh(now, t.maxAge) {
		return Location{}, stale
	}
	// Of several keys the one that was created last exists: it could be created only when the
	// others were gone.
	newest := t.items[item]
	if newest == nil {
		return Location{}, t.keylessFinding(item, now)
	}
	for c := newest.next; c != nil; c = c.next {
		if c.create > newest.create {
			newest = c
		}
	}
	if f := newest.ownership(now); f != owned {
		return Location{}, f
	}
	p := newest.peer
	return Location{Member: p.id, Address: p.address, Grant: max(newest.create, p.record)}, owned
}

// keylessFinding is the finding for an item without a key.
func (t *table) keylessFinding(item string, now time.Time) finding {
	switch {
	case t.released.has(item, now):
		return moving
	case t.unread > 0:
		return unread
	}
	return keyless
}

// handOverTime is for how long the items of a member that has just gone count as being moved. It
// may have handed them over with its record, and its share has not been read yet.
const handOverTime = time.Second

// ownership tells whether the key's member may work on the item: the protocol's
// rules for the start of work, as seen from outside.
func (c *assignmentKey) ownership(now time.Time) finding {
	p := c.peer
	switch {
	case !p.registered && !p.goneAt.IsZero() && now.Sub(p.goneAt) < handOverTime:
		return moving
	case !p.registered && p.ackKeep:
		return moving // it is being restarted, and resumes them
	case !p.registered:
		return ownerless
	case p.leaving, p.idle, c.releasing, c.malformed:
		return moving // its work is being stopped, or is not started
	case p.index < p.record:
		return moving // the share was read before the member registered: the key may be gone
	case c.create < p.record:
		// Inherited: started when no predecessor can be inside its lease any more.
		if p.ackClear && p.ackSession == p.session {
			return owned
		}
		return moving
	case c.session != p.session:
		return moving // granted to a session that is over: it is not started
	}
	return owned
}
