package leader

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/messages"
)

// standing is what the event log says of members and orders. The difference between it and what the
// leader sees is what has happened: also what happened while nobody led.
type standing struct {
	led      bool              // that this term has begun
	before   string            // who led before
	members  map[string]string // by id: the last event's word
	sessions map[string]string // of those that have joined, as far as they are known
	drained  map[string]bool
	pins     map[string]string // the member of each item
	prefers  map[string]string
	frozen   bool
	braked   bool
	override uint64
	index    uint64 // of orders that say nothing new
}

// view is what the leader sees.
type view struct {
	members messages.Table[facts.Member]
	absent  map[string]absence
	holds   func(member string) int
	control facts.Control
	brake   brake
}

func newStanding() standing {
	return standing{members: map[string]string{}, sessions: map[string]string{},
		drained: map[string]bool{}, pins: map[string]string{}, prefers: map[string]string{}}
}

// learn takes in an event of the log.
func (s *standing) learn(e protocol.Event) {
	switch e.What {
	case protocol.EventLeads:
		s.before = e.To
	case protocol.EventJoined:
		s.members[e.To] = e.What
	case protocol.EventLeaving, protocol.EventLost, protocol.EventLeft:
		s.members[e.From] = e.What
		delete(s.sessions, e.From)
	case protocol.EventDrained:
		s.drained[e.From] = true
	case protocol.EventUndrained:
		delete(s.drained, e.From)
	case protocol.EventPinned, protocol.EventUnpinned:
		tie(s.pins, e)
	case protocol.EventPreferred, protocol.EventUnprefer:
		tie(s.prefers, e)
	case protocol.EventFrozen, protocol.EventThawed:
		s.frozen = e.What == protocol.EventFrozen
	case protocol.EventBrakeOn, protocol.EventBrakeOff:
		s.braked = e.What == protocol.EventBrakeOn
	}
}

func tie(to map[string]string, e protocol.Event) {
	for _, item := range e.Items {
		if to[item] = e.To; e.To == "" {
			delete(to, item)
		}
	}
}

// begin takes in what the leader sees first. If the log does not reach back to the beginning, what
// it does not say is taken as old.
func (s *standing) begin(v view, complete bool) {
	s.override = v.control.Override
	if complete {
		return
	}
	for id, m := range v.members.All() {
		if s.members[id] != "" {
			continue
		}
		if s.members[id] = protocol.EventJoined; m.Leaving {
			s.members[id] = protocol.EventLeaving
		}
	}
	for id := range v.control.Drain.IDs() {
		s.drained[id] = true
	}
	for item, to := range v.control.Pins.All() {
		if s.pins[item] == "" {
			s.pins[item] = to
		}
	}
	for item, to := range v.control.Preferred.All() {
		if s.prefers[item] == "" {
			s.prefers[item] = to
		}
	}
}

// told takes in that the events between this and a view are in the log now.
func (s *standing) told(events []protocol.Event, v view) {
	for _, e := range events {
		if s.learn(e); e.What == protocol.EventJoined {
			m, _ := v.members.Get(e.To)
			s.sessions[e.To] = m.Session
		}
	}
	s.led, s.override = true, v.control.Override
	maps.DeleteFunc(s.members, func(id, _ string) bool {
		_, away := v.absent[id]
		return !away && !v.members.Has(id)
	})
}

// news returns what has happened and is not in the log.
func (s *standing) news(leader string, v view) (events []protocol.Event) {
	if !s.led {
		e := protocol.Event{What: protocol.EventLeads, To: leader}
		if s.before != leader {
			e.From = s.before
		}
		events = append(events, e)
	}
	events = append(events, s.ofPresent(v)...)
	events = append(events, s.ofAbsent(v)...)
	if s.index != v.control.Index {
		orders := s.ofOrders(v.control)
		if events = append(events, orders...); len(orders) == 0 {
			s.index = v.control.Index
		}
	}
	switch braked := v.brake.cause != brakeOff && !v.control.Freeze; {
	case braked && !s.braked:
		events = append(events, protocol.Event{What: protocol.EventBrakeOn, Why: v.brake.text})
	case s.braked && v.brake.text == "":
		events = append(events, protocol.Event{What: protocol.EventBrakeOff})
	}
	return events
}

func (s *standing) ofPresent(v view) (events []protocol.Event) {
	for id, m := range v.members.All() {
		was := s.members[id]
		switch {
		case m.Leaving && was != protocol.EventLeaving:
			events = append(events, protocol.Event{What: protocol.EventLeaving, From: id})
		case m.Leaving:
		case was != protocol.EventJoined:
			events = append(events, protocol.Event{What: protocol.EventJoined, To: id})
		case s.sessions[id] == "":
			s.sessions[id] = m.Session
		case s.sessions[id] != m.Session:
			events = append(events, protocol.Event{What: protocol.EventJoined, To: id,
				Why: "again"})
		}
	}
	return events
}

func (s *standing) ofAbsent(v view) (events []protocol.Event) {
	for _, id := range slices.Sorted(maps.Keys(v.absent)) {
		away, was := v.absent[id], s.members[id]
		if away.since.IsZero() || v.members.Has(id) {
			continue
		}
		word, holds := away.word(), v.holds(id)
		if was == protocol.EventLeaving || away.ack == 0 && holds == 0 {
			word = protocol.EventLeft
		}
		if was == word || was == protocol.EventLost ||
			was == "" && word == protocol.EventLeft && holds == 0 {
			continue // it was said, or it is what is left of one of whom that was said
		}
		e := protocol.Event{What: word, From: id, Holds: holds}
		if word == protocol.EventLeft && was != protocol.EventLeaving {
			e.Why = protocol.Unannounced
		}
		if holds > 0 {
			e.Wait = min(away.grace, protocol.MaxKeep).Milliseconds()
		}
		events = append(events, e)
	}
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		_, away := v.absent[id]
		if was := s.members[id]; away || v.members.Has(id) ||
			was != protocol.EventJoined && was != protocol.EventLeaving {
			continue
		}
		e := protocol.Event{What: protocol.EventLeft, From: id}
		if s.members[id] != protocol.EventLeaving {
			e.Why = protocol.Unannounced
		}
		events = append(events, e)
	}
	return events
}

func (s *standing) ofOrders(c facts.Control) (events []protocol.Event) {
	for id := range c.Drain.IDs() {
		if !s.drained[id] {
			events = append(events, protocol.Event{What: protocol.EventDrained, From: id,
				By: given(c, protocol.DrainOrder(id))})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.drained)) {
		if !c.Drain.Has(id) {
			events = append(events, protocol.Event{What: protocol.EventUndrained, From: id,
				By: given(c, protocol.DrainOrder(id))})
		}
	}
	events = append(events, tied(s.pins, c.Pins, protocol.EventPinned, protocol.EventUnpinned,
		func(item string) string { return given(c, protocol.PinOrder(item)) })...)
	events = append(events, tied(s.prefers, c.Preferred, protocol.EventPreferred,
		protocol.EventUnprefer,
		func(item string) string { return given(c, protocol.PreferOrder(item)) })...)
	if c.Freeze != s.frozen {
		what := protocol.EventThawed
		if c.Freeze {
			what = protocol.EventFrozen
		}
		events = append(events, protocol.Event{What: what, By: given(c, protocol.FreezeOrder)})
	}
	if c.Override > s.override {
		events = append(events, protocol.Event{What: protocol.EventOverridden,
			By: given(c, protocol.OverrideOrder)})
	}
	return events
}

// given says who gave an order, or took it back; empty: that is not known.
func given(c facts.Control, order string) string {
	by, _ := c.By.Get(order)
	return by
}

// tied returns the orders that name the member of an item, and the ends of such ones, that are not
// in was. by says who gave or ended the order about an item.
func tied(was map[string]string, now messages.Table[string], begin, end string,
	by func(item string) string) (events []protocol.Event) {
	for item, to := range now.All() {
		if was[item] != to {
			events = append(events, protocol.Event{What: begin, Items: []string{item}, To: to,
				By: by(item)})
		}
	}
	for _, item := range slices.Sorted(maps.Keys(was)) {
		if !now.Has(item) {
			events = append(events, protocol.Event{What: end, Items: []string{item},
				By: by(item)})
		}
	}
	return events
}
