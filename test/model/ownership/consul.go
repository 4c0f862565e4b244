package ownership

// What Consul makes of a request: the conditions of its transaction, and what it changes.

// holds tells whether all conditions of r hold.
func (m *Model) holds(s *state, r *message) bool {
	id := r.id
	locked, sameAck := s.record[id].session == r.session, s.ack[id].index == r.ack
	sameKey := s.key[id].hold == free || s.key[id].modified == r.key
	switch r.kind {
	case register:
		return s.exists(r.session) && s.record[id].session == 0 &&
			(sameAck || m.broken[registerAnyAck]) &&
			(r.ack != 0 || s.join[id] == r.join || m.broken[joinWithoutSequence])
	case release:
		return (locked || m.broken[releaseUnregistered]) && (sameAck ||
			m.broken[acksUnconditional]) &&
			(sameKey || m.broken[releaseAnyIndex])
	case settle:
		return locked && (sameAck || m.broken[acksUnconditional])
	case goodbye, lastGoodbye, pause:
		return locked || m.broken[goodbyeUnchecked]
	}
	if !m.guarded(s, r) {
		return false
	}
	receives := s.record[r.to].session == r.session || m.broken[noReceiverCheck]
	creates := s.key[r.to].hold == free || m.broken[noCreateOnly]
	absent := (s.record[id].session == 0 || m.broken[reapWithoutRecordCheck]) &&
		(sameAck || m.broken[reapWithoutAckCheck])
	switch r.kind {
	case grant:
		return receives && creates
	case revoke, cancel:
		return s.key[id].hold != free && s.key[id].modified == r.key || m.broken[revokeWithoutIndex]
	case reap:
		return absent && sameKey && receives && creates
	default: // sweep
		return absent
	}
}

// guarded looks at the operations that each transaction of a leader begins with.
func (m *Model) guarded(s *state, r *message) bool {
	return (s.holder != 0 && s.epoch == r.epoch || m.broken[noGuard]) &&
		(s.sequence[r.slot] == r.sequence || m.broken[leaderWithoutSequence])
}

// hopeless tells whether r will never be applied: what it asks for is over, and does not come back.
func (m *Model) hopeless(s *state, r *message) bool {
	id := r.id
	otherAck := s.ack[id].index != r.ack
	switch r.kind {
	case register:
		return !s.exists(r.session) || r.ack != 0 && otherAck && !m.broken[registerAnyAck] ||
			r.ack == 0 && s.join[id] != r.join && !m.broken[joinWithoutSequence]
	case release:
		return !s.exists(r.session) && !m.broken[releaseUnregistered] ||
			otherAck && !m.broken[acksUnconditional]
	case settle:
		return !s.exists(r.session) || otherAck && !m.broken[acksUnconditional]
	case goodbye, lastGoodbye, pause:
		return !s.exists(r.session) && !m.broken[goodbyeUnchecked]
	}
	if !m.guarded(s, r) {
		return true
	}
	switch r.kind {
	case grant:
		return !s.exists(r.session) && !m.broken[noReceiverCheck]
	case revoke, cancel:
		return !m.holds(s, r)
	}
	return otherAck && !m.broken[reapWithoutAckCheck]
}

// apply does what r asks for. Its conditions hold.
func (m *Model) apply(s *state, r *message) {
	n := s.next()
	id := int(r.id)
	if r.ofLeader() {
		if s.holder != r.from+1 || s.epoch != r.epoch {
			s.breached = max(s.breached, deposedWrote)
		}
		s.sequence[r.slot] = n
	}
	switch r.kind {
	case register:
		s.record[id] = record{r.session, n}
		s.ack[id] = ack{index: n, session: r.session, ttl: r.ttl, clear: r.clear}
		if r.ack == 0 {
			s.join[id] = n
		}
	case release:
		s.key[id] = key{}
		s.ack[id] = ack{index: n, session: r.session, ttl: r.ttl, clear: r.clear}
	case settle:
		s.ack[id] = ack{index: n, session: r.session, ttl: r.ttl, clear: true}
	case goodbye, lastGoodbye:
		s.record[id] = record{}
		if r.clear {
			s.key[id], s.ack[id] = key{}, ack{}
		}
	case pause:
		s.record[id] = record{}
		s.ack[id] = ack{index: n, session: r.session, ttl: r.ttl, clear: r.clear, stopped: true}
	case grant:
		s.key[r.to] = key{own, r.session, n, n}
	case revoke, cancel:
		k := &s.key[id]
		if k.hold == free {
			k.created, k.session = n, r.session
		}
		k.hold, k.modified = own, n
		if r.kind == revoke {
			k.hold = rel
		}
	case reap:
		if !m.broken[reapInTwoSteps] {
			s.key[id] = key{}
		}
		s.key[r.to] = key{own, r.session, n, n}
	case sweep:
		s.ack[id] = ack{}
	}
}
