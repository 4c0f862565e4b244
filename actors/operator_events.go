package actors

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Event is one thing that happened to items, members or orders, as the leader of then wrote it
// down. What happened to items is in the log if and only if Consul has applied it. The words of
// Kind are listed in docs/design.md; a later version may have more.
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

// Events returns what the event log holds, in the order in which it was committed: the last 256
// transactions of leaders. Errors as for Status.
func (o *Operator) Events(ctx context.Context) ([]Event, error) {
	entries, _, err := o.store.List(ctx, o.keys.Events(), store.Consistent)
	if err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	events := []Event{}
	for _, r := range o.keys.ReadEvents(entries, skip) {
		events = append(events, eventsOf(r)...)
	}
	return events, nil
}

// FollowEvents yields what happens after the index, that of the last [Event] seen, until ctx ends.
// It asks again for as long as Consul does not answer. Each change has the whole log read, which is
// 2 MiB at the most, at most ten times a second; if more than the whole log was written meanwhile
// the first event is of the Kind [EventsMissed].
func (o *Operator) FollowEvents(ctx context.Context, after uint64) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var crowd store.Crowd
		watch := o.store.WatchPrefix(o.keys.Events())
		for view := range watch.Views(ctx, "events", &store.Polls{}, watch.Next) {
			records := o.keys.ReadEvents(view.Entries, skip)
			last := uint64(0)
			if n := len(records); n > 0 {
				last = records[n-1].Index
			}
			if last < after { // Consul was restored
				after = last
			}
			if len(records) >= protocol.EventSlots && records[0].Index > after && after > 0 &&
				!yield(Event{Index: after, Time: records[0].Time(), Kind: EventsMissed}) {
				return
			}
			for _, r := range records {
				for _, e := range eventsOf(r) {
					if e.Index > after && !yield(e) {
						return
					}
				}
			}
			after = last
			if !store.Pause(ctx, crowd.Rest(view)) {
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
