package leader

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The leader keeps the event log (see [protocol.EventRecord]). What a transaction does to items is
// said in the transaction itself, by one operation more: it costs no request, and nothing can be in
// the log that was not committed. What happens beside (members, orders, the brake) waits for the
// next transaction for a moment, then it has one of its own, at most one a second.
//
// Nothing depends on the log. Where the token does not allow it, or it fails and nothing else does,
// the leader goes on without, and looks again a minute later, if it has something to do then.

// eventPause is the least time between two transactions that hold nothing but events.
const eventPause = time.Second

// eventsDeniedPause is how soon the log is tried again that the token did not allow.
const eventsDeniedPause = time.Minute

// eventsPauseMost is the longest pause of a log that fails for another reason, which may take time.
const eventsPauseMost = 16 * time.Minute

// mostPending is how many events wait to be written; more are counted.
const mostPending = 200

// eventLog is the writing side of the log, of one assigner.
type eventLog struct {
	keys   protocol.Keys
	leader string
	epoch  uint64
	off    bool // the token does not allow it, or it fails
	offAt  time.Time
	pause  time.Duration // after which it is tried again
	asked  time.Time     // whether the token allows it
	failed int           // how often in a row it may have been what failed
	doubts int           // how often in a row it is not known whether pending was written
	bare   bool          // what is being written goes without
	bared  time.Time     // when an order was chosen last to be tried without
	next   int           // the slot to be set next
	led    bool          // the log says already that this term began
	before string

	seen     standing
	released map[string]release // by item, until somebody gets it
	pending  []protocol.Event
	more     int
	since    time.Time // of the first of pending
	sentAt   time.Time
	sent     struct { // of pending
		slot  int
		value []byte
	}
}

// release is how an item came to have no owner.
type release struct{ from, why string }

func newEventLog(keys protocol.Keys, leader string) *eventLog {
	return &eventLog{keys: keys, leader: leader, released: map[string]release{},
		seen: newStanding()}
}

// readEvents takes in what the log says, once in each epoch: where it ends, and what stands.
func (a *Assigner) readEvents(ctx context.Context) error {
	l := a.events
	if l.off {
		return nil
	}
	entries, _, err := a.Store.List(ctx, a.Keys.Events(), store.Consistent)
	if err != nil {
		if l.toBlame(err, 0) && a.ofOneID(ctx)(err) { // it has waited for 30 s
			l.turnOff(a, err)
			return nil
		}
		return err
	}
	l.epoch = a.epoch
	for _, e := range entries {
		if l.sent.value != nil && e.Key == l.keys.Event(l.sent.slot) &&
			bytes.Equal(e.Value, l.sent.value) {
			l.written() // whose outcome was not known
		}
	}
	l.load(a.Keys.ReadEvents(entries, a.odd.Skip), a.term)
	return nil
}

// toBlame takes in that something with the log has failed, and tells whether to try without it.
// Most failures without a word about the log are an election's, in which Consul keeps requests
// waiting for 7 s; hung is how many of them without an answer may be one's.
func (l *eventLog) toBlame(err error, hung int) bool {
	if l.off {
		return false
	}
	switch l.failed++; {
	case errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrInvalid):
		return true
	case errors.Is(err, store.ErrNoAnswer):
		return l.failed > hung
	case errors.Is(err, store.ErrUnreachable):
		return l.failed > mostInRow
	}
	return false
}

// mayBeToBlame tells whether an order that was in vain alone is to be tried without the log: when
// that is what fails it fails with every order, so one of them shows it.
func (l *eventLog) mayBeToBlame() bool {
	if l.off || time.Since(l.bared) < impossiblePause {
		return false
	}
	l.bared = time.Now()
	return true
}

// mostInRow is how often in a row something fails before it is tried without what it may be due to.
const mostInRow = 2

func (l *eventLog) turnOff(a *Assigner, err error) {
	if l.offAt.IsZero() {
		a.Log.Warn("events-not-logged", "err", err, "do",
			"let the token write below "+a.Keys.Events()+", if it may not")
	}
	l.pause = min(max(2*l.pause, eventsDeniedPause), eventsPauseMost)
	if errors.Is(err, store.ErrDenied) { // which costs no time
		l.pause = eventsDeniedPause
	}
	l.off, l.offAt, l.doubts = true, time.Now(), 0
}

// works takes in that something was written with the log.
func (l *eventLog) works() {
	if !l.off && !l.bare {
		l.failed, l.pause = 0, 0
	}
}

// logDenied asks, when a transaction was denied that may have carried events, whether that was for
// the log. Then there is none for a while, and the items need not wait for it.
func (a *Assigner) logDenied(ctx context.Context) bool {
	if a.events.off || time.Since(a.events.asked) < impossiblePause {
		return false
	}
	a.events.asked = time.Now()
	_, err := a.Store.NamedTxn(ctx, "event log", store.CheckIndex(a.Keys.Leader(), a.epoch),
		store.Set(a.Keys.Events(), nil, 0))
	if errors.Is(err, store.ErrDenied) {
		a.events.turnOff(a, err)
	}
	return a.events.off
}

// tryEventsAgain has the log written again when the token may allow it by now.
func (a *Assigner) tryEventsAgain(ctx context.Context) error {
	if !a.events.off || time.Since(a.events.offAt) < a.events.pause {
		return nil
	}
	a.events.off = false
	if a.open(ctx) != nil {
		return errStale // there may be no writer now
	}
	a.events.still(a.assigned)
	return nil
}

// load goes on where records end.
func (l *eventLog) load(records []protocol.EventRecord, term uint64) {
	l.next, l.before, l.led = 0, "", false
	for _, r := range records {
		if r.Slot < protocol.EventSlots {
			l.next = (r.Slot + 1) % protocol.EventSlots
		}
		l.led = l.led || r.Leader == l.leader && r.Epoch >= term
		l.before = r.Leader
	}
	if l.seen.begun {
		return // what this assigner has seen since is newer
	}
	l.seen.complete = len(records) < protocol.EventSlots
	for _, r := range records {
		for _, e := range r.Events {
			l.seen.learn(e)
			l.learn(e)
		}
	}
}

// learn notes who had an item last, and whether it is to give it up: for what a predecessor
// revoked, this leader grants.
func (l *eventLog) learn(e protocol.Event) {
	for _, item := range e.Items {
		switch e.What {
		case protocol.EventRevoked:
			l.released[item] = release{e.From, e.Why}
		case protocol.EventGranted, protocol.EventTakenOver:
			l.released[item] = release{e.To, protocol.EventLeft}
		case protocol.EventKept:
			l.released[item] = release{e.From, protocol.EventLeft}
		}
		if r := l.released[item]; e.What == protocol.EventErased || r.why == "removed" {
			delete(l.released, item)
		}
	}
}

// still drops what was learned of items that have an owner who is not about to give them up: those
// without a key were given up while nobody led.
func (l *eventLog) still(assigned *assignmentCache) {
	for _, items := range assigned.members {
		for item, key := range items {
			if !key.Releasing {
				delete(l.released, item)
			}
		}
	}
}

// opening are the operations that begin an epoch: the sentinel, which shows whether the token
// allows the log, and who leads.
func (l *eventLog) opening(now time.Time) []store.Op {
	if l.off {
		return nil
	}
	ops := []store.Op{store.Set(l.keys.Events(), nil, 0)}
	if !l.led {
		e := protocol.Event{What: protocol.EventLeads, To: l.leader}
		if l.before != l.leader {
			e.From = l.before
		}
		ops = append(ops, l.op(now, []protocol.Event{e}, 0))
	}
	return ops
}

// op sets the next slot.
func (l *eventLog) op(now time.Time, events []protocol.Event, more int) store.Op {
	r := protocol.EventRecord{At: now.UnixMilli(), Leader: l.leader, Epoch: l.epoch,
		Events: events, More: more}
	op := store.Set(l.keys.Event(l.next), r.Encode(), 0)
	l.next = (l.next + 1) % protocol.EventSlots
	return op
}

// comment has the writer's transactions say what they do.
func (a *Assigner) comment() {
	l := a.events
	if l.off {
		return
	}
	a.writer.Comment(store.Set(l.keys.Event(protocol.EventSlots-1),
		make([]byte, protocol.MaxEventBytes), 0), func(units []store.Unit) (store.Op, bool) {
		events := a.eventsOf(units)
		if len(events) == 0 || l.off || l.bare {
			return store.Op{}, false
		}
		return l.op(time.Now(), events, 0), true
	})
}

// eventsOf says what units do. Items of one kind, from and to the same members for the same reason,
// are one event.
func (a *Assigner) eventsOf(units []store.Unit) []protocol.Event {
	type group struct{ what, from, to, why, by string }
	var events []protocol.Event
	at, last := map[group]int{}, group{}
	add := func(g group, item string) {
		if len(events) > 0 && g == last { // as the one before, mostly
			events[len(events)-1].Items = append(events[len(events)-1].Items, item)
			return
		}
		i, ok := at[g]
		if !ok {
			i = len(events)
			at[g] = i
			events = append(events, protocol.Event{What: g.what, From: g.from, To: g.to,
				Why: g.why, By: g.by})
			last = g
		}
		events[i].Items = append(events[i].Items, item)
	}
	for _, u := range units {
		o := u.Tag.(order)
		g := group{from: o.from, to: o.to, why: o.reason}
		switch o.kind {
		case orderGrant:
			g.what = protocol.EventGranted
			if o.note != nil {
				add(group{what: protocol.EventUnquarantined, why: o.reason}, o.item)
			}
			if r, ok := a.origin(o.item); ok {
				g.from, g.why = r.from, r.why
			}
		case orderRevoke:
			g.what = protocol.EventRevoked
			if o.note != nil && o.note.Since != 0 {
				add(group{what: protocol.EventQuarantined, from: o.from,
					why: o.note.Last().Exit}, o.item)
			}
		case orderCancel:
			g.what = protocol.EventKept
		case orderReap:
			g.what, g.why = protocol.EventTakenOver, a.absent[o.from].word()
		case orderErase:
			g.what = protocol.EventErased
		case orderForget:
			if o.note.Since == 0 {
				continue
			}
			g.what = protocol.EventUnquarantined
			if g.why == "" { // by an order
				g.by = given(a.control.Get(), protocol.RestartItemOrder(o.item))
			}
		case orderRestart:
			g.what, g.why = protocol.EventRestarted, ""
			g.by = restartedBy(a.control.Get(), o)
		case orderTell:
			g.what, g.why = protocol.EventChanged, ""
		default:
			continue
		}
		add(g, o.item)
	}
	return events
}

// origin says who had an item that has no owner now, and why it has left; not known: false.
func (a *Assigner) origin(item string) (release, bool) {
	r, ok := a.events.released[item]
	if r.why == unasked && a.away(r.from) {
		r.why = protocol.EventLeft
	}
	return r, ok
}

// did takes in an order that was carried out.
func (l *eventLog) did(o order) {
	switch {
	case o.kind == orderRevoke && o.reason != "removed":
		l.released[o.item] = release{o.from, o.reason}
	case o.item != "":
		delete(l.released, o.item)
	}
}

// unasked is why an item was released by a member that nobody has asked to, and that is not known
// to leave. It may be about to: the views of the records and of the releases come one after the
// other.
const unasked = "released"

// away tells whether a member is gone, or leaves.
func (a *Assigner) away(member string) bool {
	m, here := a.members.Get().Items.Get(member)
	return !here || m.Leaving
}

// gaveUp notes which of its items a member has released without being asked.
func (a *Assigner) gaveUp(member string, before, after map[string]messages.Assignment) {
	for item, key := range before {
		if _, holds := after[item]; !holds && !key.Releasing {
			a.events.released[item] = release{member, unasked}
		}
	}
}

// observe has the log say what is new about members, orders and the brake.
func (a *Assigner) observe(s *snapshot, d draft) {
	if d.plan.Settled {
		clear(a.events.released) // nobody asks for them any more
	}
	a.events.observe(s.now, view{members: s.members, absent: a.absent, control: s.control,
		brake: d.brake, holds: func(id string) int { return len(a.assigned.members[id]) }})
}

// observe takes in what stands now. What is new about it is written soon.
func (l *eventLog) observe(now time.Time, v view) {
	if l.off {
		return
	}
	for _, e := range l.seen.next(v) {
		if len(l.pending) == 0 {
			l.since = now
		}
		if len(l.pending) == mostPending {
			l.more++
			continue
		}
		l.pending = append(l.pending, e)
	}
}

// due is when the events that wait have a transaction of their own; zero: none wait.
func (l *eventLog) due(merge time.Duration) time.Time {
	if len(l.pending) == 0 || l.off {
		return time.Time{}
	}
	if at := l.since.Add(merge); at.After(l.sentAt.Add(eventPause)) {
		return at
	}
	return l.sentAt.Add(eventPause)
}

// join puts the events that wait before units, or has them go alone once they are due.
// While it is not known what became of them before, they go when nothing else does.
func (l *eventLog) join(units []store.Unit, more bool, now time.Time,
	merge time.Duration) []store.Unit {
	due := l.due(merge)
	if due.IsZero() || l.doubts > 0 && (more || len(units) > 0) ||
		len(units) == 0 && now.Before(due) {
		return units
	}
	l.sentAt = now
	l.sent.slot = l.next
	op := l.op(now, l.pending, l.more)
	l.sent.value = op.Value()
	return append([]store.Unit{{Ops: []store.Op{op}, Tag: order{kind: orderEvents}}}, units...)
}

// written forgets the events that waited: the log has them, or never can.
func (l *eventLog) written() {
	l.pending, l.more, l.sent.value, l.doubts = nil, 0, nil, 0
	l.works()
}
