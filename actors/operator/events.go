package operator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Event is one thing that happened to items, members or orders, as the leader of then wrote it
// down. What happened to items is in the log if and only if Consul has applied it. The words of
// Kind are the constants Event… of internal/protocol/events.go, and [EventsMore] and
// [EventsMissed]; a later version may have more.
type Event struct {
	// Index is Consul's index of the transaction; all events are in its order.
	Index  uint64    `json:"index"`
	Time   time.Time `json:"time"`   // by the leader's clock
	Leader string    `json:"leader"` // who wrote it
	Epoch  uint64    `json:"epoch"`  // that the leader wrote under
	Kind   string    `json:"kind"`
	Items  []string  `json:"items,omitempty"`
	From   string    `json:"from,omitempty"` // the member that had the items, or that is concerned
	To     string    `json:"to,omitempty"`   // the member that gets them, or that came
	Why    string    `json:"why,omitempty"`
	By     string    `json:"by,omitempty"` // the operator, where the order says so
	// Holds is how many items a member held that is gone, and Wait how long they wait for it at the
	// most, in milliseconds.
	Holds int   `json:"holds,omitempty"`
	Wait  int64 `json:"wait_ms,omitempty"`
	// More is how many items, of a Kind "more", found no room in the log.
	More int `json:"more,omitempty"`
}

// EventsMore is the Kind of what stands for items and events that found no room in the log.
// EventsMissed stands for events that were overwritten before a follower saw them.
const (
	EventsMore   = "more"
	EventsMissed = "missed"
)

// EventLog is what the event log held at one moment: the last 256 transactions of leaders. It is
// immutable.
type EventLog struct {
	events []Event // in the order in which they were committed
	last   uint64  // index of the newest record
	full   bool    // older records may have been overwritten
}

func (c *Client) eventLog(entries []store.Entry) (l EventLog) {
	records := c.keys.ReadEvents(entries, skip)
	l = EventLog{events: []Event{}, full: len(records) >= protocol.EventSlots}
	for _, r := range records {
		l.events = append(l.events, eventsOf(r)...)
		l.last = r.Index
	}
	return l
}

// All returns all events that are in the log, in the order in which they were committed. The
// caller must not change them.
func (l EventLog) All() []Event { return l.events }

// After returns the events after an index, that of the last [Event] seen, and the index to go on
// from. If more than the whole log was written meanwhile the first event is of the Kind
// [EventsMissed]. It is the only one if the log ends before the index: Consul was restored, or came
// back empty.
func (l EventLog) After(index uint64) (events []Event, last uint64) {
	if n := len(l.events); l.last < index && n > 0 {
		return []Event{{Index: l.last, Time: l.events[n-1].Time, Kind: EventsMissed}}, l.last
	}
	if l.full && len(l.events) > 0 && l.events[0].Index > index && index > 0 {
		events = append(events, Event{Index: index, Time: l.events[0].Time, Kind: EventsMissed})
	}
	for _, e := range l.events {
		if e.Index > index {
			events = append(events, e)
		}
	}
	return events, l.last
}

// About returns the events that are about an item or a member, since a moment, and of their items
// no other one than that. The empty string stands for all events, and the zero time for any.
func About(events []Event, id string, since time.Time) []Event {
	out := []Event{}
	for _, e := range events {
		if e.Time.Before(since) {
			continue
		}
		if slices.Contains(e.Items, id) {
			e.Items = []string{id}
		} else if id != "" && e.From != id && e.To != id && e.Kind != EventsMissed {
			continue
		}
		out = append(out, e)
	}
	return out
}

// EventLog reads the event log. Errors as for Status.
func (c *Client) EventLog(ctx context.Context) (EventLog, error) {
	entries, _, err := c.store.List(ctx, c.keys.Events(), store.Consistent)
	if err != nil {
		return EventLog{}, fmt.Errorf("reading the event log: %w", err)
	}
	return c.eventLog(entries), nil
}

// FollowEvents yields what happens after the index, that of the last [Event] seen, until ctx ends.
// It asks again for as long as Consul does not answer. Each change has the whole log read, which is
// 2 MiB at the most, at most ten times a second; if more than the whole log was written meanwhile
// the first event is of the Kind [EventsMissed].
func (c *Client) FollowEvents(ctx context.Context, after uint64) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for l := range c.FollowEventLog(ctx) {
			var events []Event
			events, after = l.After(after)
			for _, e := range events {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// FollowEventLog yields the event log as it is, and then each time it has changed, until ctx ends.
// It asks as FollowEvents does.
func (c *Client) FollowEventLog(ctx context.Context) iter.Seq[EventLog] {
	return func(yield func(EventLog) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var crowd store.Crowd
		watch := store.WatchPrefix(c.store, c.keys.Events())
		for view := range watch.Views(ctx, "events", &store.Polls{}, watch.Next) {
			if !yield(c.eventLog(view.Entries)) || !store.Pause(ctx, crowd.Rest(view)) {
				return
			}
		}
	}
}

func eventsOf(r protocol.EventRecord) []Event {
	event := func(e protocol.Event, more int) Event {
		return Event{Index: r.Index, Time: r.Time(), Leader: r.Leader, Epoch: r.Epoch,
			Kind: e.What, Items: e.Items, From: e.From, To: e.To, Why: e.Why, By: e.By,
			Holds: e.Holds, Wait: e.Wait, More: more}
	}
	var events []Event
	for _, e := range r.Events {
		events = append(events, event(e, 0))
	}
	if r.More > 0 {
		events = append(events, event(protocol.Event{What: EventsMore}, r.More))
	}
	return events
}
