// Package ownership is a model of who owns an item: section 5 of docs/design.md without the
// leadership, which is in the package leading.
//
// There is one item; two ids, A and B; up to three processes of A, one after the other or at the
// same time; two leaders; and faults, which are counted. Time goes in ticks. Between two ticks
// everything happens in every order.
package ownership

import "github.com/coordd/coordd/test/model"

// Bound is how far a model goes.
type Bound struct {
	Name     string
	A, B     int    // processes of the two ids; the first of each is up and registered
	Steady   bool   // B's lease never ends, and nothing befalls it
	Sessions uint8  // that a process may open, 1 or 2
	TTL      uint8  // ticks
	LongTTL  uint8  // that of the first process of A, if it is another
	Slots    int    // sequence keys, 1 or 2
	Faults   faults // how much may go wrong
}

func (b *Bound) ttl(p int) uint8 {
	if p == 0 && b.LongTTL > 0 {
		return b.LongTTL
	}
	return b.TTL
}

// steady tells whether a process has no troubles: its clock does not go on.
func (m *Model) steady(p int) bool { return m.bound.Steady && m.idOf(p) == 1 }

func (b *Bound) ttlOfSession(x session) uint8 { return b.ttl(ownerOf(x)) }

func (b *Bound) grace() uint8 { return b.TTL }

// Model is the protocol within a bound, with some of its rules broken.
type Model struct {
	bound  Bound
	broken [numRules]bool
	plain  bool // states are told apart that nothing that can happen tells apart: see tidy
}

func (m *Model) idOf(p int) int {
	if p < m.bound.A {
		return 0
	}
	return 1
}

// System is the model, for the explorer.
func (m *Model) System() model.System[state] {
	return model.System[state]{
		Init: m.begin(),
		Next: func(s *state, emit func(model.Step, *state)) {
			m.steps(s, func(v verb, who uint8, f func(*state)) {
				t := *s
				f(&t)
				m.tidy(&t)
				emit(model.Step{Verb: uint8(v), Who: who}, &t)
			})
		},
		Breach: func(s *state) string { return breaches[m.look(s)] },
		Tell:   m.tell,
	}
}

// begin is where it begins: one process of each id is registered, the first leader has read
// everything, the item is free.
func (m *Model) begin() state {
	var s state
	s.alive = 0
	for id, p := range []int{0, m.bound.A} {
		x := session(p*sessionsEach + 1)
		n := s.next()
		s.alive |= 1 << (x - 1)
		s.proc[p] = proc{life: up, session: x, opened: 1, lease: m.bound.ttl(p), registered: n}
		s.record[id] = record{x, n}
		s.ack[id] = ack{index: n, session: x, ttl: m.bound.ttl(p), clear: true}
	}
	s.epoch, s.holder = s.next(), 1
	for j := range m.bound.Slots {
		s.sequence[j] = s.next()
	}
	s.leader[0] = leader{phase: ready, epoch: s.epoch, sequence: s.sequence}
	s.left = m.bound.Faults
	m.tidy(&s)
	return s
}

// steps lists all that can happen next.
func (m *Model) steps(s *state, do func(verb, uint8, func(*state))) {
	for p := range m.bound.A + m.bound.B {
		m.process(s, p, do)
	}
	for i := range s.leader {
		m.leads(s, i, do)
	}
	m.arrivals(s, do)
	m.world(s, do)
}

// world is what happens by itself, or by operators and strangers.
func (m *Model) world(s *state, do func(verb, uint8, func(*state))) {
	for x := session(1); x <= procs*sessionsEach; x++ {
		if !s.exists(x) {
			continue
		}
		p := &s.proc[ownerOf(x)]
		held := p.session == x && p.lease > 0 && p.life != gone || s.replyTo == uint8(ownerOf(x))+1
		if !held {
			do(expires, x, func(t *state) { t.end(x) })
		} else if s.left.EarlyEnd > 0 && !m.steady(ownerOf(x)) {
			do(endsEarly, x, func(t *state) { t.left.EarlyEnd--; t.end(x) })
		}
	}
	if s.left.Deletes > 0 && s.record[0].session != 0 {
		do(strangerDeletes, 0, func(t *state) { t.left.Deletes--; t.record[0] = record{} })
	}
	if s.left.Past > 0 {
		do(fallsBehind, 0, func(t *state) {
			t.left.Past--
			t.past, t.pastAt = t.key[0], t.next()-1
		})
	}
	if s.holder != 0 && s.left.Takes > 0 {
		do(loses, s.holder-1|leaderBit, func(t *state) { t.holder = 0 })
	}
	if m.counts(s) {
		do(ticks, 0, m.tick)
	}
}

// counts tells whether a tick makes any difference.
func (m *Model) counts(s *state) bool {
	for i := range s.proc {
		if x := &s.proc[i]; !m.steady(i) && (x.lease > 0 || x.wait > 1 && x.life == up) {
			return true
		}
	}
	for i := range s.leader {
		for _, a := range s.leader[i].absent {
			if a.left > 0 {
				return true
			}
		}
	}
	return s.reply > 0
}

func (m *Model) tick(t *state) {
	for i := range t.proc {
		x := &t.proc[i]
		if m.steady(i) {
			continue
		}
		if x.lease > 0 {
			x.lease--
		}
		if x.lease == 0 && !m.broken[noLease] {
			x.work = 0
		}
		if x.wait > 1 && x.life == up {
			x.wait--
		}
	}
	for i := range t.leader {
		for id := range t.leader[i].absent {
			if a := &t.leader[i].absent[id]; a.left > 0 {
				a.left--
				a.waited++
			}
		}
	}
	if t.reply > 0 {
		t.reply--
	}
}

// look judges a state.
func (m *Model) look(s *state) breach {
	switch {
	case s.working() > 1:
		return twoOwners
	case s.key[0].hold != free && s.key[1].hold != free:
		return twoKeys
	case s.breached != none:
		return s.breached
	}
	for id, k := range s.key {
		r := s.record[id]
		if k.hold == own && r.session != 0 && k.created > r.created && k.session != r.session {
			return stuckKey
		}
	}
	return none
}
