package leading

// holds tells whether all conditions of r hold.
func (m *Model) holds(s *state, r *message) bool {
	same := s.leaderIndex == r.leader
	sameTerm := s.term.index == r.term || m.broken[termUnchecked]
	free := s.exists(r.session) && (s.leader == 0 || s.leader == r.session) // what a lock asks for
	switch r.kind {
	case take:
		return (same || m.broken[keyUnchecked]) && sameTerm && free
	case newEpoch:
		return (same && s.leader != 0 || m.broken[keyUnchecked]) && free
	case clear:
		return same && s.leader != 0 && sameTerm
	default: // resign
		return same && s.leader != 0 && (r.term == 0 || sameTerm)
	}
}

// apply does what r asks for. Its conditions hold.
func (m *Model) apply(s *state, r *message) {
	n := s.next()
	if r.kind != newEpoch && r.next.session != 0 {
		s.term = r.next
		s.term.index = n
	}
	switch r.kind {
	case take, newEpoch:
		s.leader, s.leaderIndex = r.session, n
	case resign:
		s.leader, s.leaderIndex = 0, 0
	}
}

// send lists what can become of a request.
func (m *Model) send(s *state, r message, do todo) {
	note := func(t *state) {
		x := &t.proc[r.from]
		switch r.kind {
		case take:
			if r.wait > 0 && !m.broken[waitNotedLater] {
				x.noted = r.wait
			}
		case newEpoch:
			t.left.Epochs--
		case resign:
			if x.life == up {
				t.left.Leaves--
				if x.duty {
					t.left.Abandons--
				}
				x.life, x.epoch, x.wait, x.noted = gone, 0, 0, 0
			}
		}
	}
	answered := func(t *state) {
		x := &t.proc[r.from]
		switch r.kind {
		case take:
			x.epoch, x.wait = t.leaderIndex, r.wait
			if r.wait > 0 {
				x.noted = r.wait
			}
		case newEpoch:
			x.epoch = t.leaderIndex
		case clear:
			x.wait = 0
		}
	}
	wire := r
	wire.wait = 0
	room := s.net[inNet-1].kind == nothing
	if m.holds(s, &wire) {
		do(sends+verb(r.kind), r.from, func(t *state) { note(t); m.apply(t, &wire); answered(t) })
		if s.left.Copies > 0 && room {
			do(sendsTwice+verb(r.kind), r.from, func(t *state) {
				note(t)
				t.left.Copies--
				m.apply(t, &wire)
				answered(t)
				wire := wire
				wire.copy = true
				t.put(wire)
			})
		}
	}
	if s.left.Late > 0 && room {
		do(sendsLate+verb(r.kind), r.from, func(t *state) {
			note(t)
			t.left.Late--
			t.put(wire)
		})
	}
}

func (s *state) put(r message) {
	for i := range s.net {
		if s.net[i].kind == nothing {
			s.net[i] = r
			return
		}
	}
}

func (s *state) drop(i int) {
	copy(s.net[i:], s.net[i+1:])
	s.net[inNet-1] = message{}
}

// tidy makes states the same that nothing can tell apart any more.
func (m *Model) tidy(s *state) {
	for i := 0; i < inNet && s.net[i].kind != nothing; {
		r := &s.net[i]
		over := !s.exists(r.session)
		if r.kind != newEpoch && r.term != 0 && r.term != s.term.index && !m.broken[termUnchecked] {
			over = true // the term moves on and never back
		}
		if r.leader != 0 && r.leader != s.leaderIndex && !m.broken[keyUnchecked] {
			over = true
		}
		if over {
			s.drop(i)
		} else {
			i++
		}
	}
	for i := range s.proc {
		x := &s.proc[i]
		if x.life != up && !x.duty && !s.exists(x.session) {
			*x = proc{life: x.life, opened: x.opened}
		}
		if x.life == up && !x.duty && x.session != 0 && !s.exists(x.session) && !m.broken[noLease] {
			// Nothing that it does succeeds before it has heard.
			x.session, x.lease, x.epoch, x.wait = 0, 0, 0, 0
		}
	}
	s.renumber()
}
