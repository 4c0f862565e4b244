package ownership

// Two states are one where nothing that can happen tells them apart. tidy makes them the same: it
// drops what makes no difference any more, and renumbers indexes.

func (m *Model) tidy(s *state) {
	if !m.plain {
		m.drop(s)
	}
	s.renumber(m.bound.A)
	s.sort()
}

// drop forgets what makes no difference any more.
func (m *Model) drop(s *state) {
	for i := 0; i < inNet && s.net[i].kind != nothing; {
		if m.hopeless(s, &s.net[i]) {
			s.take(i)
		} else {
			i++
		}
	}
	for i := range s.proc {
		m.tidyProcess(s, i)
	}
	m.tidyLeaders(s)
	if s.pastAt != 0 && !m.broken[staleView] {
		used := false
		for p := range m.bound.A {
			x := &s.proc[p]
			used = used || x.life == up && (x.registered != 0 && x.registered <= s.pastAt ||
				x.session != 0 && s.record[0].session == x.session &&
					s.record[0].created <= s.pastAt)
		}
		if !used {
			s.past, s.pastAt = key{}, 0
		}
	}
}

func (m *Model) tidyProcess(s *state, p int) {
	x := &s.proc[p]
	if x.life == gone && x.work == 0 {
		x.session, x.lease = 0, 0
	}
	if x.life == crashed && x.work == 0 && (x.registered == 0 || !s.exists(x.session)) {
		*x = proc{life: crashed, opened: x.opened}
	}
	if x.life != up {
		return
	}
	if x.registered != 0 && x.released < x.registered {
		x.released = 0 // no token is as low any more
	}
	if x.work != 0 || m.broken[startUnchecked] || m.broken[releaseUnregistered] ||
		m.broken[goodbyeUnchecked] ||
		m.broken[renewalUnconfirmed] || s.replyTo == uint8(p)+1 {
		return
	}
	// Nothing that it does succeeds any more before it has heard what became of its session, or its
	// record.
	if x.session != 0 && !s.exists(x.session) {
		x.session, x.lease, x.registered = 0, 0, 0
	} else if x.registered != 0 && s.record[m.idOf(p)].created != x.registered {
		x.registered = 0
	}
	if x.registered == 0 {
		x.final, x.released = 0, 0
		if s.record[m.idOf(p)].session != x.session || x.session == 0 {
			m.forgetView(x)
		}
	}
}

func (m *Model) tidyLeaders(s *state) {
	for id := range s.noted {
		if s.noted[id].ack != s.ack[id].index && !m.broken[anotherAbsence] {
			s.noted[id] = note{}
		}
	}
	for i := range s.leader {
		l := &s.leader[i]
		if !m.broken[noGuard] && s.holder != uint8(i)+1 {
			*l = leader{} // Consul refuses whatever it does
		}
		for id := range l.absent {
			if l.absent[id].ack != s.ack[id].index && !m.broken[reapWithoutAckCheck] {
				l.absent[id] = absence{}
			}
		}
	}
	if s.leader[0].phase == idle && s.leader[1].phase != idle { // they are alike
		s.leader[0], s.leader[1] = s.leader[1], s.leader[0]
		switch s.holder {
		case 1:
			s.holder = 2
		case 2:
			s.holder = 1
		}
		for i := range s.net {
			if s.net[i].ofLeader() {
				s.net[i].from ^= 1
			}
		}
	}
	if s.holder == 0 && !m.broken[noGuard] {
		s.epoch = 0
	}
}

// sort puts what is under way in order.
func (s *state) sort() {
	for i := 1; i < inNet; i++ {
		for j := i; j > 0 && s.net[j].kind != nothing && less(&s.net[j], &s.net[j-1]); j-- {
			s.net[j], s.net[j-1] = s.net[j-1], s.net[j]
		}
	}
}

// next is an index above all others: that of the log entry that is about to be written.
func (s *state) next() index {
	n := index(0)
	s.each(0, func(_ class, p *index) { n = max(n, *p) })
	return n + 1
}

// class is a kind of index. Of all but the ordered ones nobody asks more than whether two are the
// same.
type class uint8

const (
	ordered    class = iota // CreateIndexes and tokens
	ofAck                   // of an id, as are the next two
	ofKey      class = ofAck + ids
	ofJoin     class = ofKey + ids
	ofEpoch    class = ofJoin + ids
	ofSequence class = ofEpoch + 1
	numClasses class = ofSequence + slots
)

// each visits wherever an index is held, Consul's own first. The processes from a on are of B.
func (s *state) each(a int, visit func(class, *index)) {
	for id := range s.record {
		c := class(id)
		visit(ordered, &s.record[id].created)
		visit(ordered, &s.key[id].created)
		visit(ofKey+c, &s.key[id].modified)
		visit(ofAck+c, &s.ack[id].index)
		visit(ofJoin+c, &s.join[id])
		visit(ofAck+c, &s.noted[id].ack)
	}
	visit(ofEpoch, &s.epoch)
	for j := range s.sequence {
		visit(ofSequence+class(j), &s.sequence[j])
	}
	visit(ordered, &s.token)
	visit(ordered, &s.past.created)
	visit(ofKey, &s.past.modified)
	visit(ordered, &s.pastAt)
	for i := range s.proc {
		x := &s.proc[i]
		if x.life == unborn {
			continue
		}
		id := class(0)
		if i >= a {
			id = 1
		}
		visit(ordered, &x.registered)
		visit(ordered, &x.view.created)
		visit(ofKey+id, &x.view.modified)
		visit(ordered, &x.work)
		visit(ordered, &x.final)
		visit(ordered, &x.released)
	}
	for i := range s.leader {
		l := &s.leader[i]
		if l.phase == idle {
			continue
		}
		visit(ofEpoch, &l.epoch)
		for j := range l.sequence {
			visit(ofSequence+class(j), &l.sequence[j])
		}
		for id := range l.absent {
			visit(ofAck+class(id), &l.absent[id].ack)
		}
	}
	for i := range s.net {
		r := &s.net[i]
		if r.kind == nothing {
			break
		}
		id := class(r.id)
		visit(ofEpoch, &r.epoch)
		visit(ofSequence+class(r.slot), &r.sequence)
		visit(ofKey+id, &r.key)
		visit(ofAck+id, &r.ack)
		visit(ofJoin+id, &r.join)
	}
}

// renumber gives the ordered indexes their ranks, and the others of each class numbers as they
// come.
func (s *state) renumber(a int) {
	var have [64]bool
	var number [numClasses][64]index
	var last [numClasses]index
	s.each(a, func(c class, p *index) {
		switch {
		case *p == 0:
		case c == ordered:
			have[*p] = true
		case number[c][*p] == 0:
			last[c]++
			number[c][*p] = last[c]
		}
	})
	for i := 1; i < len(have); i++ {
		if have[i] {
			last[ordered]++
			number[ordered][i] = last[ordered]
		}
	}
	s.each(a, func(c class, p *index) { *p = number[c][*p] })
}
