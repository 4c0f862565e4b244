package ownership

// What a leader does. It is one that knows the rules and nothing of balance: it grants, revokes,
// calls back and reaps whatever it may at any moment, so whatever a planner wants is among it.

func (m *Model) leads(s *state, i int, do func(verb, uint8, func(*state))) {
	l, who := &s.leader[i], uint8(i)|leaderBit
	mine := s.holder == uint8(i)+1
	switch {
	case l.phase == idle:
		first := i == 0 || s.leader[i-1].phase != idle // those who idle are all alike
		if s.holder == 0 && first && s.left.Takes > 0 {
			do(takes, who, func(t *state) {
				t.left.Takes--
				t.epoch, t.holder = t.next(), uint8(i)+1
				t.leader[i] = leader{phase: taken, epoch: t.epoch}
			})
		}
		return
	case !mine:
		do(deposed, who, func(t *state) { t.leader[i] = leader{} })
	}
	guarded := mine && s.epoch == l.epoch || m.broken[noGuard]
	switch {
	case l.phase == doubt && mine:
		do(newEpoch, who, func(t *state) {
			if !m.broken[noNewEpoch] {
				t.epoch = t.next()
			}
			t.leader[i].phase, t.leader[i].epoch = taken, t.epoch
		})
	case l.phase == taken && guarded:
		do(opensWriter, who, func(t *state) {
			for j := range m.bound.Slots {
				t.sequence[j] = t.next()
			}
			t.leader[i].phase, t.leader[i].sequence = ready, t.sequence
		})
	case l.phase == ready:
		m.looks(s, i, do)
		for j := range m.bound.Slots {
			r := message{from: uint8(i), epoch: l.epoch, slot: uint8(j), sequence: l.sequence[j]}
			m.orders(s, i, r, do)
		}
	}
}

// looks is what a leader finds out of those who are gone, and notes.
func (m *Model) looks(s *state, i int, do func(verb, uint8, func(*state))) {
	l := &s.leader[i]
	for id := range s.record {
		what := uint8(i) | leaderBit | uint8(id)<<idShift
		a, k := s.ack[id], s.key[id]
		last := a.session
		if a.index == 0 {
			last = k.session
		}
		away := l.absent[id]
		same := away.confirmed && away.ack == a.index
		missing := s.record[id].session == 0 && (a.index != 0 || k.hold != free)
		if missing && !same && (!s.exists(last) || m.broken[goneByRecordAlone]) {
			do(confirms, what, func(t *state) {
				now := absence{confirmed: true, ack: a.index, left: max(m.bound.grace(), a.ttl)}
				if a.stopped {
					now.left = a.ttl // 0 if it was clear
				}
				w := t.noted[id]
				if a.index != 0 && (w.ack == a.index || m.broken[anotherAbsence] && w.waited > 0) {
					now.waited = min(w.waited, now.left)
					now.left -= now.waited
				}
				t.leader[i].absent[id] = now
			})
		}
		now, guarded := note{away.ack, away.waited}, s.holder == uint8(i)+1 && s.epoch == l.epoch
		if s.left.Notes > 0 && guarded && away.confirmed &&
			now.waited > 0 && now.ack != 0 && s.noted[id] != now {
			do(notes, what, func(t *state) {
				t.left.Notes--
				t.noted[id] = now
			})
		}
	}
}

// orders lists what a leader may write now. It knows what there is, by what it has read and
// written.
func (m *Model) orders(s *state, i int, r message, do func(verb, uint8, func(*state))) {
	l := &s.leader[i]
	send := func(k kind, id, to int, session session, key, ack index) {
		r := r
		r.kind, r.id, r.to, r.session, r.key, r.ack = k, uint8(id), uint8(to), session, key, ack
		if k != revoke && k != cancel {
			m.send(s, r, do)
			return
		}
		m.send(s, r, func(v verb, who uint8, f func(*state)) {
			do(v, who, func(t *state) { t.left.Moves--; f(t) })
		})
	}
	for id := range s.key {
		other := 1 - id
		k, away := s.key[id], l.absent[id]
		if k.hold == free && (s.key[other].hold == free || m.broken[partialRead]) {
			// The view of the members may be older than the end of one.
			to := s.record[id].session
			if to == 0 {
				to = s.ack[id].session
			}
			if to != 0 {
				send(grant, id, id, to, 0, 0)
			}
		}
		over := away.confirmed && (away.left == 0 || m.broken[noGrace])
		switch {
		case k.hold == free:
			if over && away.ack != 0 {
				send(sweep, id, id, 0, 0, away.ack)
			}
		case s.record[id].session != 0 && s.left.Moves > 0:
			if k.hold == own {
				send(revoke, id, id, k.session, k.modified, 0)
			} else {
				send(cancel, id, id, k.session, k.modified, 0)
			}
		}
		if k.hold != free && over && s.record[other].session != 0 {
			send(reap, id, other, s.record[other].session, k.modified, away.ack)
		}
	}
}

// seal makes a refusal final, before anything else is written.
func (m *Model) seal(t *state, r *message) {
	if m.broken[refusalNotFinal] {
		return
	}
	if !m.guarded(t, r) {
		t.leader[r.from].phase = doubt
		return
	}
	t.sequence[r.slot] = t.next()
	t.leader[r.from].sequence[r.slot] = t.sequence[r.slot]
}
