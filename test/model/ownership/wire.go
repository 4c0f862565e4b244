package ownership

// kind of a request.
type kind uint8

const (
	nothing kind = iota
	register
	release
	settle      // the ack says that no earlier lease can be valid
	goodbye     // of a living process
	lastGoodbye // of a dead one, by its guard
	pause       // a goodbye for a while
	grant
	revoke
	cancel
	reap  // and grant, in one transaction
	sweep // of the ack of an absent member without keys
)

// message is a request that writes. from is a process, or a leader.
type message struct {
	kind     kind
	from     uint8
	copy     bool // it has been applied, or refused for good, once before
	id       uint8
	to       uint8
	session  session // whose record it is about, or to whom it grants
	epoch    index
	slot     uint8
	sequence index
	key      index // ModifyIndex of the assignment key
	ack      index // ModifyIndex of the ack; 0: there is none
	join     index
	clear    bool
	ttl      uint8

	// What the sender notes when it sends or hears the answer; not on the wire.
	wait, inherit uint8
	token         index
}

func (r *message) ofLeader() bool { return r.kind >= grant }

// send lists what can become of a request: it is applied and answered, or there is no answer and it
// arrives later or never; or it is applied, or refused, and a copy arrives later.
func (m *Model) send(s *state, r message, do func(verb, uint8, func(*state))) {
	who := r.from
	if r.ofLeader() {
		who |= leaderBit | r.id<<idShift
	} else {
		r.id = uint8(m.idOf(int(r.from)))
	}
	m.sending(s, r, func(note func(*state)) {
		wire := r
		wire.wait, wire.inherit, wire.token = 0, 0, 0
		if m.holds(s, &wire) {
			do(sends+verb(r.kind), who, func(t *state) {
				note(t)
				m.apply(t, &wire)
				m.answered(t, &r)
			})
			if s.left.Copies > 0 && s.room() {
				do(sendsTwice+verb(r.kind), who, func(t *state) {
					note(t)
					t.left.Copies--
					m.apply(t, &wire)
					m.answered(t, &r)
					wire := wire
					wire.copy = true
					t.put(wire)
				})
			}
		} else if s.left.Copies > 0 && s.room() {
			do(isRefused+verb(r.kind), who, func(t *state) {
				note(t)
				t.left.Copies--
				t.put(wire)
				m.refused(t, &r)
			})
		}
		if s.left.Late > 0 && s.room() {
			do(sendsLate+verb(r.kind), who, func(t *state) {
				note(t)
				t.left.Late--
				t.put(wire)
				m.unanswered(t, &r)
			})
		}
	})
}

// room tells whether another request can be under way.
func (s *state) room() bool { return s.net[inNet-1].kind == nothing }

// put adds a request to those under way, which are kept in order.
func (s *state) put(r message) {
	i := inNet - 1
	for ; i > 0 && (s.net[i-1].kind == nothing || less(&r, &s.net[i-1])); i-- {
		s.net[i] = s.net[i-1]
	}
	s.net[i] = r
}

func less(a, b *message) bool {
	switch {
	case a.kind != b.kind:
		return a.kind < b.kind
	case a.from != b.from:
		return a.from < b.from
	case a.key != b.key:
		return a.key < b.key
	case a.ack != b.ack:
		return a.ack < b.ack
	case a.sequence != b.sequence:
		return a.sequence < b.sequence
	}
	return !a.copy && b.copy
}

func (s *state) take(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[inNet-1] = message{}
}

// arrivals lists what can become of the requests under way. Those that never arrive need no step.
func (m *Model) arrivals(s *state, do func(verb, uint8, func(*state))) {
	for i := range s.net {
		r := s.net[i]
		if r.kind == nothing {
			break
		}
		if i > 0 && r == s.net[i-1] || !m.holds(s, &r) {
			continue // refused: nothing changes
		}
		who := r.from
		if r.ofLeader() {
			who |= leaderBit | r.id<<idShift
		}
		do(arrives+verb(r.kind), who, func(t *state) {
			t.take(i)
			if r.copy {
				t.breached = max(t.breached, appliedTwice)
			}
			m.apply(t, &r)
		})
	}
}

// sending is what the sender notes beforehand: it holds whatever becomes of the request.
func (m *Model) sending(s *state, r message, then func(func(*state))) {
	p := int(r.from)
	switch r.kind {
	case register:
		then(func(t *state) {
			if r.wait > 0 && !m.broken[waitNotedLater] {
				t.proc[p].wait, t.proc[p].inherit = r.wait, r.inherit
			}
		})
	case release:
		then(func(t *state) {
			x := &t.proc[p]
			x.released = max(x.released, r.token)
		})
	case goodbye, pause:
		then(func(t *state) { t.left.Leaves--; t.leave(p) })
	case lastGoodbye:
		then(func(t *state) {
			if t.proc[p].life != up {
				t.leave(p)
			}
		})
	default:
		then(func(*state) {})
	}
}

// leave is the end of a process. Work that it left behind lasts for the lease.
func (s *state) leave(p int) {
	x := &s.proc[p]
	*x = proc{life: gone, opened: x.opened, work: x.work, session: x.session, lease: x.lease}
	if x.work == 0 {
		x.session, x.lease = 0, 0
	}
}

// answered is what the sender makes of a success.
func (m *Model) answered(t *state, r *message) {
	if r.ofLeader() {
		l := &t.leader[r.from]
		l.sequence[r.slot] = t.sequence[r.slot]
		if r.kind == sweep {
			l.absent[r.id] = absence{}
		}
		return
	}
	p := int(r.from)
	x, id := &t.proc[p], m.idOf(p)
	switch r.kind {
	case register:
		x.registered, x.released, x.final = t.record[id].created, 0, 0
		x.wait, x.inherit = r.wait, r.inherit
		m.forgetView(x)
	case release:
		x.view, x.final = key{}, 0
	case settle:
		x.wait, x.inherit = 0, 0
	}
}

// refused is what the sender makes of a refusal. Of the members' requests none is noted.
func (m *Model) refused(t *state, r *message) {
	if r.ofLeader() {
		m.seal(t, r)
	}
}

func (m *Model) unanswered(t *state, r *message) {
	if r.ofLeader() {
		t.leader[r.from].phase = doubt
	}
}
