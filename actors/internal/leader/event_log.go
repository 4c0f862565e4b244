package leader

import (
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The leader keeps the event log (see [protocol.EventRecord]). What a transaction does to items is
// said in the transaction itself, by one operation more: it costs no request, and nothing can be in
// the log that was not committed. What happens beside (members, orders, the brake) waits for the
// next transaction for a moment, then it has one of its own, at most one a second. One decision
// uses the log: a free item is placed near the zone of the member that had it.

// eventPause is the least time between two transactions that hold nothing but events.
const eventPause = time.Second

// mostNews is how many events beside are written at one time; more are counted.
const mostNews = 200

// eventLog is the writing side of the log.
type eventLog struct {
	keys   protocol.Keys
	leader string
	epoch  uint64
	next   int // the slot to be set next

	said     standing
	begun    bool // something was compared with what was said
	complete bool // the log was read from the beginning of all

	news   []protocol.Event // what has happened beside and is not in the log
	view   view             // by which that is so
	since  time.Time        // of the first of them
	sentAt time.Time

	origins map[string]origin // by item, until somebody gets it
}

// origin is how an item came to have no owner.
type origin struct {
	from string
	why  reason
}

func newEventLog(keys protocol.Keys, leader string) *eventLog {
	return &eventLog{keys: keys, leader: leader, origins: map[string]origin{},
		said: newStanding()}
}

// load takes in what the log says, once in each epoch: where it ends, and what stands. So it is
// known what became of events whose outcome was not known.
func (l *eventLog) load(records []protocol.EventRecord, term, epoch uint64, assigned known) {
	l.next, l.epoch = 0, epoch
	for _, r := range records {
		if r.Slot < protocol.EventSlots {
			l.next = (r.Slot + 1) % protocol.EventSlots
		}
		for _, e := range r.Events {
			l.said.learn(e)
			if !l.begun {
				l.learn(e)
			}
		}
		l.said.led = l.said.led || r.Leader == l.leader && r.Epoch >= term
		l.said.before = r.Leader
	}
	l.complete = len(records) < protocol.EventSlots
	l.still(assigned)
}

// learn notes who had an item last, and whether it is to give it up: for what a predecessor
// revoked, this leader grants.
func (l *eventLog) learn(e protocol.Event) {
	for _, item := range e.Items {
		switch e.What {
		case protocol.EventRevoked:
			l.origins[item] = origin{e.From, reason(e.Why)}
		case protocol.EventGranted, protocol.EventTakenOver:
			l.origins[item] = origin{e.To, reasonLeft}
		case protocol.EventKept:
			l.origins[item] = origin{e.From, reasonLeft}
		}
		if r := l.origins[item]; e.What == protocol.EventErased || r.why == reasonRemoved {
			delete(l.origins, item)
		}
	}
}

// still drops what was learned of items that have an owner who is not about to give them up: those
// without a key were given up while nobody led.
func (l *eventLog) still(assigned known) {
	for _, items := range assigned {
		for item, key := range items {
			if !key.Releasing {
				delete(l.origins, item)
			}
		}
	}
}

// applied takes in an order that was carried out.
func (l *eventLog) applied(o *order) {
	switch {
	case o.kind == orderRevoke && o.reason != reasonRemoved:
		l.origins[o.item] = origin{o.from, o.reason}
	case o.item != "":
		delete(l.origins, o.item)
	}
}

// gaveUp notes which of its items a member has released without being asked, and though it is not
// known to leave. It may be about to: the views of the records and of the releases come one after
// the other.
func (l *eventLog) gaveUp(member string, before, after map[string]facts.Assignment) {
	for item, key := range before {
		if _, holds := after[item]; !holds && !key.Releasing {
			l.origins[item] = origin{member, reasonReleased}
		}
	}
}

// origin returns what says who had an item that has no owner now, and why it has left.
func (l *eventLog) origin(members messages.Table[facts.Member]) func(string) (origin, bool) {
	return func(item string) (origin, bool) {
		r, ok := l.origins[item]
		if m, here := members.Get(r.from); r.why == reasonReleased && (!here || m.Leaving) {
			r.why = reasonLeft
		}
		return r, ok
	}
}

// see takes in what stands now. What is new about it is written soon.
func (l *eventLog) see(now time.Time, v view) {
	if !l.begun {
		l.said.begin(v, l.complete)
		l.begun = true
	}
	l.view, l.news = v, l.said.news(l.leader, v)
	if len(l.news) == 0 {
		l.since = time.Time{}
	} else if l.since.IsZero() {
		l.since = now
	}
}

// due is when the news have a transaction of their own; zero: there are none.
func (l *eventLog) due(merge time.Duration) time.Time {
	if len(l.news) == 0 {
		return time.Time{}
	}
	if at := l.since.Add(merge); at.After(l.sentAt.Add(eventPause)) {
		return at
	}
	return l.sentAt.Add(eventPause)
}

// newsUnit writes the news: beside orders, or alone once they are due.
func (l *eventLog) newsUnit(now time.Time, merge time.Duration, orders int) (store.Unit, bool) {
	if len(l.news) == 0 || orders == 0 && now.Before(l.due(merge)) {
		return store.Unit{}, false
	}
	l.sentAt = now
	n := min(len(l.news), mostNews)
	return store.Unit{Ops: []store.Op{l.op(now, l.news[:n], len(l.news)-n)}}, true
}

// told takes in that the log has the news.
func (l *eventLog) told() {
	l.said.told(l.news, l.view)
	l.news, l.since = nil, time.Time{}
}

// op sets the next slot.
func (l *eventLog) op(now time.Time, events []protocol.Event, more int) store.Op {
	r := protocol.EventRecord{At: now.UnixMilli(), Leader: l.leader, Epoch: l.epoch,
		Events: events, More: more}
	op := store.Set(l.keys.Event(l.next), r.Encode(), 0)
	l.next = (l.next + 1) % protocol.EventSlots
	return op
}

// comment has a writer's transactions say what they do.
func (l *eventLog) comment(w *store.Writer, now func() *inputs) {
	w.Comment(store.Set(l.keys.Event(protocol.EventSlots-1),
		make([]byte, protocol.MaxEventBytes), 0), func(units []store.Unit) (store.Op, bool) {
		events := eventsOf(units, now())
		if len(events) == 0 {
			return store.Op{}, false
		}
		return l.op(time.Now(), events, 0), true
	})
}

// eventsOf says what units do. Items of one kind, from and to the same members for the same reason,
// are one event.
func eventsOf(units []store.Unit, in *inputs) []protocol.Event {
	type group struct{ what, from, to, why, by string }
	var events []protocol.Event
	at, last, lastAt := map[group]int{}, group{}, 0
	for _, u := range units {
		o, ok := u.Tag.(*order)
		if !ok {
			continue // the news
		}
		o.events(in, func(e protocol.Event) {
			g := group{e.What, e.From, e.To, e.Why, e.By}
			if len(events) == 0 || g != last { // else as the one before, which is so mostly
				if lastAt, ok = at[g]; !ok {
					lastAt = len(events)
					at[g] = lastAt
					events = append(events, e)
				}
				last = g
			}
			events[lastAt].Items = append(events[lastAt].Items, o.item)
		})
	}
	return events
}

// events says what an order does to its item.
func (o *order) events(in *inputs, say func(protocol.Event)) {
	e := protocol.Event{From: o.from, To: o.to, Why: string(o.reason)}
	switch o.kind {
	case orderGrant, orderReap:
		if o.note != nil {
			say(protocol.Event{What: protocol.EventUnquarantined, Why: string(reasonElsewhere)})
		}
		if o.kind == orderReap {
			e.What, e.Why = protocol.EventTakenOver, in.absent[o.from].word()
			break
		}
		e.What = protocol.EventGranted
		if r, ok := in.origin(o.item); ok {
			e.From, e.Why = r.from, string(r.why)
		}
	case orderRevoke:
		e.What = protocol.EventRevoked
		if o.note != nil && o.note.Since != 0 {
			say(protocol.Event{What: protocol.EventQuarantined, From: o.from,
				Why: o.note.Last().Exit})
		}
	case orderCancel:
		e.What = protocol.EventKept
	case orderErase:
		e.What = protocol.EventErased
	case orderForget:
		if o.note.Since == 0 {
			return
		}
		if e.What = protocol.EventUnquarantined; e.Why == "" { // by an order
			e.By = given(in.control, protocol.RestartItemOrder(o.item))
		}
	case orderRestart:
		e.What, e.Why, e.By = protocol.EventRestarted, "", restartedBy(in.control, o)
	case orderTell:
		e.What, e.Why = protocol.EventChanged, ""
	default:
		return
	}
	say(e)
}
