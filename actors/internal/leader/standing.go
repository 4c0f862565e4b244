package leader

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// standing is what the event log has said of members and orders so far. The difference between it
// and what the leader sees is what has happened: also to what happened while nobody led.
type standing struct {
	members  map[string]string // by id: the last event's word
	sessions map[string]string
	drained  map[string]bool
	pins     map[string]string // the member of each item
	prefers  map[string]string
	frozen   bool
	braked   bool
	override uint64
	index    uint64 // of the orders that were looked at last
	begun    bool   // something was looked at
	complete bool   // the log was read from the beginning of all: what it does not say is new
}

// view is what the leader sees.
type view struct {
	members messages.Table[messages.Member]
	absent  map[string]absence
	holds   func(member string) int
	control messages.Control
	brake   string
}

func newStanding() standing {
	return standing{members: map[string]string{}, sessions: map[string]string{},
		drained: map[string]bool{}, pins: map[string]string{},
		prefers: map[string]string{}}
}

// learn takes in an event of the log.
func (s *standing) learn(e protocol.Event) {
	switch e.What {
	case protocol.EventJoined:
		s.members[e.To] = e.What
	case protocol.EventLeaving, protocol.EventLost, protocol.EventLeft:
		s.members[e.From] = e.What
	case protocol.EventDrained, protocol.EventUndrained:
		s.drained[e.From] = e.What == protocol.EventDrained
	case protocol.EventPinned, protocol.EventUnpinned:
		for _, item := range e.Items {
			s.pins[item] = e.To // of unpinned: empty
		}
	case protocol.EventPreferred, protocol.EventUnprefer:
		for _, item := range e.Items {
			s.prefers[item] = e.To
		}
	case protocol.EventFrozen, protocol.EventThawed:
		s.frozen = e.What == protocol.EventFrozen
	case protocol.EventBrakeOn, protocol.EventBrakeOff:
		s.braked = e.What == protocol.EventBrakeOn
	}
}

// next returns what has happened since the last call. Where the log does not reach back to the
// beginning, what stands at the first call and is not in it is taken as old.
func (s *standing) next(v view) []protocol.Event {
	known := s.begun || s.complete
	events := s.nextMembers(v, known)
	if !s.begun || s.index != v.control.Index {
		events = append(events, s.nextOrders(v.control, known)...)
	}
	s.begun, s.index = true, v.control.Index
	switch braked := v.brake != "" && !v.control.Freeze; {
	case braked && !s.braked:
		events = append(events, protocol.Event{What: protocol.EventBrakeOn, Why: v.brake})
		s.braked = true
	case !braked && s.braked && v.brake == "":
		events = append(events, protocol.Event{What: protocol.EventBrakeOff})
		s.braked = false
	}
	return events
}

func (s *standing) nextMembers(v view, known bool) (events []protocol.Event) {
	for id, m := range v.members.All() {
		was, told := s.members[id]
		again := s.sessions[id] != "" && s.sessions[id] != m.Session
		s.sessions[id] = m.Session
		switch {
		case m.Leaving:
			if was != protocol.EventLeaving && (told || known) {
				events = append(events, protocol.Event{What: protocol.EventLeaving, From: id})
			}
			s.members[id] = protocol.EventLeaving
			continue
		case was == protocol.EventJoined && again:
			events = append(events, protocol.Event{What: protocol.EventJoined, To: id,
				Why: "again"})
		case was != protocol.EventJoined && (told || known):
			events = append(events, protocol.Event{What: protocol.EventJoined, To: id})
		}
		s.members[id] = protocol.EventJoined
	}
	for _, id := range slices.Sorted(maps.Keys(v.absent)) {
		away := v.absent[id]
		if away.since.IsZero() || v.members.Has(id) {
			continue
		}
		word, holds := away.word(), v.holds(id)
		if s.members[id] == protocol.EventLeaving || away.ack == 0 && holds == 0 {
			word = protocol.EventLeft
		}
		if was := s.members[id]; was == word || was == protocol.EventLost {
			continue
		}
		if s.members[id] == "" && word == protocol.EventLeft && holds == 0 {
			continue // it is what is left of one of whom that was said
		}
		e := protocol.Event{What: word, From: id, Holds: holds}
		if word == protocol.EventLeft && s.members[id] != protocol.EventLeaving {
			e.Why = protocol.Unannounced
		}
		if holds > 0 {
			e.Wait = min(away.grace, protocol.MaxKeep).Milliseconds()
		}
		events = append(events, e)
		s.members[id] = word
	}
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		if v.members.Has(id) {
			continue
		}
		if _, away := v.absent[id]; away {
			continue
		}
		if was := s.members[id]; was == protocol.EventJoined || was == protocol.EventLeaving {
			e := protocol.Event{What: protocol.EventLeft, From: id}
			if was != protocol.EventLeaving {
				e.Why = protocol.Unannounced
			}
			events = append(events, e)
		}
		delete(s.members, id)
		delete(s.sessions, id)
	}
	return events
}

func (s *standing) nextOrders(c messages.Control, known bool) (events []protocol.Event) {
	drained := map[string]bool{}
	for id := range c.Drain.IDs() {
		drained[id] = true
		if was, told := s.drained[id]; !was && (told || known) {
			events = append(events, protocol.Event{What: protocol.EventDrained, From: id,
				By: given(c, protocol.DrainOrder(id))})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.drained)) {
		if s.drained[id] && !drained[id] {
			events = append(events, protocol.Event{What: protocol.EventUndrained, From: id,
				By: given(c, protocol.DrainOrder(id))})
		}
	}
	s.drained = drained
	events = append(events, tied(s.pins, c.Pins, known, protocol.EventPinned,
		protocol.EventUnpinned, func(item string) string {
			return given(c, protocol.PinOrder(item))
		})...)
	events = append(events, tied(s.prefers, c.Preferred, known, protocol.EventPreferred,
		protocol.EventUnprefer, func(item string) string {
			return given(c, protocol.PreferOrder(item))
		})...)
	if c.Freeze != s.frozen {
		what := protocol.EventThawed
		if c.Freeze {
			what = protocol.EventFrozen
		}
		events = append(events, protocol.Event{What: what, By: given(c, protocol.FreezeOrder)})
		s.frozen = c.Freeze
	}
	if s.begun && c.Override > s.override {
		events = append(events, protocol.Event{What: protocol.EventOverridden,
			By: given(c, protocol.OverrideOrder)})
	}
	s.override = c.Override
	return events
}

// given says who gave an order, or took it back; empty: that is not known.
func given(c messages.Control, order string) string {
	by, _ := c.By.Get(order)
	return by
}

// tied returns the orders that name the member of an item, and the ends of such ones, that are not
// in was yet. Then they are. by says who gave or ended the order about an item.
func tied(was map[string]string, now messages.Table[string], known bool, begin, end string,
	by func(item string) string) (events []protocol.Event) {
	for item, to := range now.All() {
		if before, told := was[item]; before != to && (told || known) {
			events = append(events, protocol.Event{What: begin, Items: []string{item}, To: to,
				By: by(item)})
		}
		was[item] = to
	}
	for _, item := range slices.Sorted(maps.Keys(was)) {
		if now.Has(item) {
			continue
		}
		if was[item] != "" {
			events = append(events, protocol.Event{What: end, Items: []string{item},
				By: by(item)})
		}
		delete(was, item)
	}
	return events
}

// word says how a member went away.
func (a absence) word() string {
	if a.stopped {
		return protocol.EventLeft
	}
	return protocol.EventLost
}
