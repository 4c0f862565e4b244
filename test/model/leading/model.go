package leading

import "github.com/coordd/coordd/test/model"

// Bound is how far a model goes.
type Bound struct {
	Name     string
	Procs    int
	Sessions uint8 // that a process may open
	TTL      uint8 // ticks
	LongTTL  uint8 // that of the first process, if it is another
	Faults   faults
}

// Model is the protocol within a bound, with some of its rules broken.
type Model struct {
	bound  Bound
	broken [numRules]bool
}

func (m *Model) ttl(p int) uint8 {
	if p == 0 && m.bound.LongTTL > 0 {
		return m.bound.LongTTL
	}
	return m.bound.TTL
}

type todo func(verb, uint8, func(*state))

// System is the model, for the explorer.
func (m *Model) System() model.System[state] {
	var begin state
	begin.left = m.bound.Faults
	return model.System[state]{
		Init: begin,
		Next: func(s *state, emit func(model.Step, *state)) {
			m.steps(s, func(v verb, who uint8, f func(*state)) {
				t := *s
				f(&t)
				m.tidy(&t)
				emit(model.Step{Verb: uint8(v), Who: who}, &t)
			})
		},
		Breach: func(s *state) string {
			duties := 0
			for i := range s.proc {
				if s.proc[i].duty {
					duties++
				}
			}
			switch {
			case duties > 1:
				return "Lead runs in two processes"
			case s.twice:
				return "a write takes effect twice"
			}
			return ""
		},
		Tell: tell,
	}
}

func (m *Model) steps(s *state, do todo) {
	for p := range m.bound.Procs {
		m.process(s, p, do)
	}
	for i := range s.net {
		if r := s.net[i]; r.kind != nothing && (i == 0 || r != s.net[i-1]) && m.holds(s, &r) {
			do(arrives+verb(r.kind), r.from, func(t *state) {
				t.drop(i)
				m.apply(t, &r)
				t.twice = t.twice || r.copy
			})
		}
	}
	counts := false
	for x := session(1); x <= procs*sessionsEach; x++ {
		if !s.exists(x) {
			continue
		}
		p := &s.proc[ownerOf(x)]
		if p.session != x || p.lease == 0 || p.life == gone {
			do(expires, x, func(t *state) { t.end(x) })
		} else if s.left.EarlyEnd > 0 {
			do(endsEarly, x, func(t *state) { t.left.EarlyEnd--; t.end(x) })
		}
	}
	for i := range s.proc {
		x := &s.proc[i]
		counts = counts || x.lease > 0 || x.wait > 1 || x.noted > 1
	}
	if counts {
		do(ticks, 0, m.tick)
	}
}

func (m *Model) tick(t *state) {
	for i := range t.proc {
		x := &t.proc[i]
		if x.lease > 0 {
			x.lease--
		}
		if x.lease == 0 && !m.broken[noLease] {
			x.epoch, x.wait, x.duty = 0, 0, false
		}
		if x.wait > 1 {
			x.wait--
		}
		if x.noted > 1 {
			x.noted--
		}
	}
}

// process lists what process p can do.
func (m *Model) process(s *state, p int, do todo) {
	x, who, ttl := &s.proc[p], uint8(p), m.ttl(p)
	leads := x.epoch != 0
	if x.life == crashed && x.session != 0 && s.leader == x.session {
		m.resign(s, p, asTheTermSays, true, do) // its guard's word
	}
	if x.life != up {
		return
	}
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
		return
	case !s.exists(x.session):
		do(losesSession, who, func(t *state) {
			y := &t.proc[p]
			y.session, y.lease, y.epoch, y.wait, y.duty = 0, 0, 0, 0, false
		})
	case x.lease < ttl:
		do(renews, who, func(t *state) { t.proc[p].lease = ttl })
	}
	if s.left.Crashes > 0 {
		do(crashes, who, func(t *state) {
			t.left.Crashes--
			y := &t.proc[p]
			*y = proc{life: crashed, opened: y.opened, session: y.session, lease: y.lease}
		})
	}
	if x.lease == 0 && !m.broken[noLease] {
		return
	}
	if !leads {
		if s.leader == 0 || s.leader == x.session {
			m.campaign(s, p, do)
		}
		return
	}
	if s.leader != x.session {
		do(seesItLost, who, func(t *state) {
			y := &t.proc[p]
			y.epoch, y.wait, y.duty = 0, 0, false
		})
	}
	if s.leader == x.session && s.leaderIndex != x.epoch { // an epoch whose answer it has not heard
		do(catchesUp, who, func(t *state) { t.proc[p].epoch = t.leaderIndex })
	}
	if !x.duty && x.wait <= 1 {
		do(begins, who, func(t *state) { t.proc[p].duty = true })
	}
	if x.wait == 1 {
		next := s.term
		next.clear, next.ttl = true, ttl
		if s.term.session == x.session && !s.term.clear && s.leaderIndex == x.epoch {
			m.send(s, message{kind: clear, from: who, session: x.session,
				leader: x.epoch, term: s.term.index, next: next}, do)
		}
	}
	if s.left.Epochs > 0 {
		m.send(s, message{kind: newEpoch, from: who, session: x.session, leader: x.epoch}, do)
	}
	if s.left.Leaves > 0 {
		left := max(0, int(x.wait)-1)
		if m.broken[restCutShort] {
			left = max(0, left-1)
		}
		if !x.duty {
			m.resign(s, p, left, true, do)
		} else {
			do(endsDuty, who, func(t *state) { t.proc[p].duty = false })
			if s.left.Abandons > 0 {
				m.resign(s, p, left, m.broken[resignedWhileItRuns], do)
			}
		}
	}
}

// campaign takes the leadership, anew when it is this session's already.
func (m *Model) campaign(s *state, p int, do todo) {
	x := &s.proc[p]
	wait := m.waitFor(s, p)
	next := term{session: x.session, ttl: m.ttl(p), clear: wait == 0}
	if wait > 0 {
		next.ttl = max(next.ttl, s.term.ttl)
	}
	if m.broken[leadNotChained] {
		next.ttl, next.clear = m.ttl(p), true
	}
	m.send(s, message{kind: take, from: uint8(p), session: x.session,
		leader: s.leaderIndex, term: s.term.index, next: next, wait: wait}, do)
}

// waitFor is how long the duty waits for leaders before, in the way of proc.wait.
func (m *Model) waitFor(s *state, p int) uint8 {
	t, x := s.term, &s.proc[p]
	if t.index == 0 || m.broken[leadAtOnce] {
		return 0
	}
	last := ownerOf(t.session)
	switch mine := last == p; {
	case t.clear && (t.resigned || mine || s.known(last)):
		return 0
	case mine && x.noted == 1:
		return 0
	case mine && x.noted > 1:
		return x.noted
	}
	return t.ttl + 1
}

// asTheTermSays is what a guard knows of the time left.
const asTheTermSays = -1

// resign gives the leadership up, as the last act of a process, or of its guard. left is how long
// those who led before may count on it. over: its duty has ended.
func (m *Model) resign(s *state, p, left int, over bool, do todo) {
	x := &s.proc[p]
	r := message{kind: resign, from: uint8(p), session: x.session, leader: s.leaderIndex}
	if s.leader != x.session {
		return
	}
	if t := s.term; t.session == x.session {
		t.clear, t.resigned = t.clear || left == 0, over
		if over && left > 0 {
			t.ttl = min(t.ttl, uint8(left))
		}
		r.term, r.next = t.index, t
	}
	m.send(s, r, do)
}
