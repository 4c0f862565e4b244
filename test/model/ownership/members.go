package ownership

// What a process does of itself. Everything that it does not do at once it may never do: so a
// process that is frozen, slow or cut off needs no step of its own.

// process lists what process p can do.
func (m *Model) process(s *state, p int, do func(verb, uint8, func(*state))) {
	x, id := &s.proc[p], m.idOf(p)
	who := uint8(p)
	switch x.life {
	case unborn:
		if p > 0 && m.idOf(p-1) == id && s.proc[p-1].life != unborn {
			do(starts, who, func(t *state) { t.proc[p].life = up })
		}
		return
	case crashed:
		m.guard(s, p, do)
		return
	case gone:
		return
	}
	mine := x.session != 0 && s.record[id].session == x.session
	m.lease(s, p, do)
	if s.left.Crashes > 0 && !m.steady(p) {
		do(crashes, who, func(t *state) {
			t.left.Crashes--
			y := &t.proc[p]
			y.life, y.view, y.final, y.released = crashed, key{}, 0, 0
			if t.replyTo == who+1 {
				t.replyTo, t.reply = 0, 0
			}
		})
	}
	if x.registered == 0 && x.session != 0 && x.lease > 0 {
		m.join(s, p, do)
	}
	if x.registered != 0 && !mine {
		do(seesRecordGone, who, func(t *state) {
			y := &t.proc[p]
			y.registered, y.work, y.final = 0, 0, 0
			m.forgetView(y)
		})
	}
	if (x.registered != 0 || mine || m.broken[staleView]) && x.view != s.key[id] {
		do(reads, who, func(t *state) { t.proc[p].view = t.key[id] })
	}
	if id == 0 && s.pastAt != 0 && x.view != s.past &&
		(x.registered != 0 && s.pastAt >= x.registered || m.broken[staleView]) {
		do(readsThePast, who, func(t *state) { t.proc[p].view = t.past })
	}
	if x.registered == 0 {
		if s.left.Leaves > 0 && !m.steady(p) {
			do(leaves, who, func(t *state) { t.left.Leaves--; t.leave(p) })
		}
		return
	}
	m.work(s, p, do)
	if x.wait == 1 && mine && s.ack[id].index != 0 && !s.ack[id].clear {
		m.send(s, message{kind: settle, from: who, session: x.session,
			ack: s.ack[id].index, clear: true, ttl: m.bound.ttl(p)}, do)
	}
	if s.left.Leaves > 0 && !m.steady(p) {
		if x.work == 0 {
			m.send(s, message{kind: goodbye, from: who, session: x.session, clear: x.wait <= 1}, do)
		}
		if x.work == 0 || m.broken[stoppedBeforeTheWork] {
			m.send(s, message{kind: pause, from: who, session: x.session,
				clear: x.wait <= 1, ttl: m.left(x)}, do)
		}
	}
	if m.broken[goodbyeForFrozen] && x.lease == 0 && x.work == 0 {
		m.send(s, message{kind: lastGoodbye, from: who, session: x.session, clear: x.wait == 0}, do)
	}
}

// lease is about the session and how long it can be counted on.
func (m *Model) lease(s *state, p int, do func(verb, uint8, func(*state))) {
	x, who, ttl := &s.proc[p], uint8(p), m.bound.ttl(p)
	switch {
	case x.session == 0:
		if x.opened < m.bound.Sessions {
			do(opens, who, func(t *state) {
				y := &t.proc[p]
				y.opened++
				y.session, y.lease = who*sessionsEach+y.opened, ttl
				t.alive |= 1 << (y.session - 1)
			})
		}
	case s.replyTo == who+1:
		do(hears, who, func(t *state) {
			y := &t.proc[p]
			if m.broken[leaseFromReply] {
				y.lease = ttl
			}
			y.lease = max(y.lease, t.reply)
			t.replyTo, t.reply = 0, 0
		})
	case s.exists(x.session):
		if x.lease < ttl {
			do(renews, who, func(t *state) { t.proc[p].lease = ttl })
			if s.left.Replies > 0 && s.replyTo == 0 {
				do(asks, who, func(t *state) { t.left.Replies--; t.reply, t.replyTo = ttl, who+1 })
			}
		}
	default:
		do(losesSession, who, func(t *state) {
			y := &t.proc[p]
			y.session, y.lease, y.registered, y.work, y.final = 0, 0, 0, 0, 0
			m.forgetView(y)
		})
		if m.broken[renewalUnconfirmed] && x.lease < ttl {
			do(renewsThePast, who, func(t *state) { t.proc[p].lease = ttl })
		}
	}
}

func (m *Model) forgetView(x *proc) {
	if !m.broken[staleView] {
		x.view = key{}
	}
}

// ttlOf is what a process writes into its ack.
func (m *Model) ttlOf(x *proc) uint8 {
	ttl := m.bound.ttlOfSession(x.session)
	if x.wait > 1 && !m.broken[ownTTLOnly] {
		ttl = max(ttl, x.inherit)
	}
	return ttl
}

// left is what one that has stopped writes into its ack: how long those before it may count on a
// lease. Of its own nothing is left.
func (m *Model) left(x *proc) uint8 {
	left := max(1, x.wait) - 1
	if m.broken[restCutShort] {
		left = max(1, left) - 1
	}
	return left
}

// join registers, unless somebody is in the way.
func (m *Model) join(s *state, p int, do func(verb, uint8, func(*state))) {
	x, id, who := &s.proc[p], m.idOf(p), uint8(p)
	rec, old := s.record[id], s.ack[id]
	before := session(0) // who is in the way
	switch {
	case rec.session == x.session: // an earlier try, whose answer was lost
		do(adopts, who, func(t *state) {
			y := &t.proc[p]
			y.registered, y.released, y.final = t.record[id].created, 0, 0
			wait, inherit := m.waitFor(t, p)
			if y.wait, y.inherit = wait, inherit; wait <= 1 {
				y.wait, y.inherit = 0, 0
			}
		})
		return
	case rec.session != 0:
		before = rec.session
	case old.session != x.session && s.exists(old.session) && !m.broken[registerOverLiving]:
		before = old.session
	}
	if before != 0 {
		q := ownerOf(before)
		if s.exists(before) && (q == p || s.known(q) || old.stopped && before == old.session) {
			do(endsPredecessor, who, func(t *state) { t.end(before) })
		}
		return
	}
	wait, inherit := m.waitFor(s, p)
	r := message{kind: register, from: who, session: x.session,
		clear: wait <= 1, ack: old.index, ttl: m.bound.ttl(p)}
	if r.clear {
		wait, inherit = 0, 0
	} else if !m.broken[ownTTLOnly] {
		r.ttl = max(r.ttl, inherit)
	}
	if old.index == 0 {
		r.join = s.join[id]
	}
	r.wait, r.inherit = wait, inherit
	m.send(s, r, do)
}

// waitFor is how long inherited items wait for earlier leases of this id, in the way of proc.wait.
func (m *Model) waitFor(s *state, p int) (wait, inherit uint8) {
	x, id := &s.proc[p], m.idOf(p)
	old := s.ack[id]
	inherit = max(old.ttl, x.inherit)
	full := old.ttl + 1
	switch {
	case old.index == 0:
		if s.key[id].hold != free {
			return m.bound.ttl(p) + 1, inherit
		}
		return 0, 0
	case old.stopped && old.clear:
		return 0, 0
	case ownerOf(old.session) == p:
		if old.clear || x.wait == 1 {
			return 0, 0
		} else if x.wait > 1 {
			return x.wait, inherit
		}
		return full, inherit
	case (old.clear || m.broken[clearNotChained]) && s.known(ownerOf(old.session)):
		return 0, 0
	}
	return full, inherit
}

// work starts, stops and gives up.
func (m *Model) work(s *state, p int, do func(verb, uint8, func(*state))) {
	x, id, who := &s.proc[p], m.idOf(p), uint8(p)
	token := max(x.view.created, x.registered)
	if m.broken[tokenOfKeyAlone] {
		token = x.view.created
	}
	inherited := x.view.created < x.registered
	mayTouch := !inherited || x.wait <= 1
	newer := token > x.released || m.broken[releasesForgotten]
	if x.work == 0 && x.final == 0 && x.view.hold == own && x.lease > 0 && newer {
		allowed := !inherited && (x.view.session == x.session || m.broken[notAddressed]) ||
			inherited && (mayTouch || m.broken[inheritedStartedEarly])
		checked := s.record[id].session == x.session || m.broken[startUnchecked]
		if allowed && checked {
			do(begins, who, func(t *state) {
				t.proc[p].work = token
				if token < t.token || token == t.token && t.tokenOf != who+1 {
					t.breached = max(t.breached, tokenFell)
				}
				t.token, t.tokenOf = max(token, t.token), who+1
			})
		}
	}
	switch {
	case x.work == 0:
	case x.view.hold == rel && x.view.created <= x.work:
		do(stops, who, func(t *state) { t.proc[p].final, t.proc[p].work = x.work, 0 })
	case x.view.hold == free || x.view.created > x.work:
		do(stops, who, func(t *state) { t.proc[p].work = 0 })
	}
	if x.final != 0 && x.view.hold == free {
		do(dropsKey, who, func(t *state) { t.proc[p].final = 0 })
	}
	ended := x.work == 0 || m.broken[releaseBeforeStop]
	giveUp := x.view.hold == rel || x.view.hold == own && (x.final != 0 || x.work == 0 && !newer)
	if giveUp && ended && (mayTouch || m.broken[inheritedReleasedEarly]) {
		m.send(s, message{kind: release, from: who, session: x.session,
			key: x.view.modified, ack: s.ack[id].index, clear: x.wait <= 1, ttl: m.ttlOf(x),
			token: max(token, x.final, x.work)}, do)
	}
}

// guard ends the work of a crashed process, and says its goodbye for it.
func (m *Model) guard(s *state, p int, do func(verb, uint8, func(*state))) {
	x, who := &s.proc[p], uint8(p)
	if x.work != 0 {
		do(guardEndsWork, who, func(t *state) { t.proc[p].work = 0 })
		if !m.broken[goodbyeBeforeStop] {
			return
		}
	}
	if x.session != 0 && x.registered != 0 {
		clear := x.wait == 0 || m.broken[goodbyeNotClear]
		m.send(s, message{kind: lastGoodbye, from: who, session: x.session, clear: clear}, do)
	}
}
