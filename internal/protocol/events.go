package protocol

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/store"
)

// The event log is a ring of keys, events/<slot>. The leader sets the next slot with each
// transaction that it writes: the record says what the transaction did. So the log says what was
// committed and nothing else. Consul's ModifyIndex of a slot is the place of its record in the
// order of all that happened; nothing that a record says about itself is needed for that. The log
// is for people. A leader takes one thing from it: the zone near which it places a free item.

const (
	// EventSlots is how many records the log keeps: 256 of at most [MaxEventBytes], 2 MiB.
	EventSlots = 256
	// MaxEventBytes is the most that a leader writes into one slot. 125 operations on items with
	// ids of 60 bytes fit.
	MaxEventBytes = 8 << 10

	readEventSlots  = 1 << 16  // a later version may have more
	readEventBytes  = 64 << 10 // and larger ones
	maxEventText    = 1000
	lastMillisecond = 253402300799999 // of the year 9999
)

// What an event says has happened. Readers show words that they do not know as they are.
const (
	EventLeads      = "leads"       // To leads; From is who led before
	EventJoined     = "joined"      // To registered; Why "again": in place of an earlier session
	EventLeaving    = "leaving"     // From is about to stop
	EventLeft       = "left"        // From has stopped; or Why: [Unannounced]
	EventLost       = "lost"        // From is gone without a word
	EventDrained    = "drained"     // an order to empty From
	EventUndrained  = "undrained"   // the end of it
	EventPinned     = "pinned"      // an order to keep the items at To
	EventUnpinned   = "unpinned"    // the end of it
	EventPreferred  = "preferred"   // an order to have the items at To, while that takes them
	EventUnprefer   = "unpreferred" // the end of it
	EventFrozen     = "frozen"      // an order to plan nothing
	EventThawed     = "thawed"      // the end of it
	EventOverridden = "overridden"  // an order to release the brake
	EventBrakeOn    = "brake-on"    // Why is a text
	EventBrakeOff   = "brake-off"
	EventGranted    = "granted"    // the items to To; From had them before, if it is known
	EventRevoked    = "revoked"    // From is to give the items up
	EventKept       = "kept"       // From is to keep them after all
	EventTakenOver  = "taken-over" // the items of From, which is gone, to To
	EventRestarted  = "restarted"  // From is to start the items' work once more, by an order
	EventChanged    = "changed"    // From is told that the items have changed in the workload
	EventErased     = "erased"     // From is gone, and so are the items from the workload
	// EventQuarantined: nobody runs the items from now on; their work has failed at From, and Why
	// is how it ended last. EventUnquarantined is the end of it, by an order, or because Why.
	EventQuarantined   = "quarantined"
	EventUnquarantined = "unquarantined"
)

// Unannounced is the reason of [EventLeft] for a member that was not seen to say that it stops, and
// whose items were handed over all the same: its guard did so when it was killed, or it stopped
// within a moment.
const Unannounced = "unannounced"

// Event is one thing that happened, to items or to members.
type Event struct {
	What  string   `json:"do"`
	Items []string `json:"i,omitempty"`
	From  string   `json:"from,omitempty"` // a member
	To    string   `json:"to,omitempty"`   // a member
	Why   string   `json:"why,omitempty"`
	By    string   `json:"by,omitempty"` // the operator
	// Holds is how many items a member held that is gone, and Wait for how long they wait for it,
	// in milliseconds.
	Holds int   `json:"n,omitempty"`
	Wait  int64 `json:"wait,omitempty"`
}

// EventRecord is the value of events/<slot>: what one transaction of a leader did.
type EventRecord struct {
	At     int64   `json:"at"` // milliseconds of Unix time, by the leader's clock
	Leader string  `json:"by"`
	Epoch  uint64  `json:"epoch"`
	Events []Event `json:"e"`
	// More is how many items, and events without items, found no room.
	More int `json:"more,omitempty"`

	// Index is the ModifyIndex of the slot.
	Index uint64 `json:"-"`
	Slot  int    `json:"-"`
}

// Time is when the transaction was sent, by the leader's clock.
func (r EventRecord) Time() time.Time { return time.UnixMilli(r.At) }

// Events returns the prefix of the event log.
func (k Keys) Events() string { return k.root + "events/" }

// Event returns the key of one slot of the event log.
func (k Keys) Event(slot int) string { return k.Events() + strconv.Itoa(slot) }

// lengthOf returns how many bytes id takes as a JSON string. Most take two more than they have: of
// these encoding/json need not be asked.
func lengthOf(id string) int {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_',
			c == '.', c == ':':
		default:
			return len(encode(id))
		}
	}
	return len(id) + 2
}

// Encode returns the JSON form, of [MaxEventBytes] at most: what finds no room is counted in More.
func (r EventRecord) Encode() []byte {
	all := r.Events
	r.Events = []Event{}
	room := MaxEventBytes - len(encode(r)) - len(`,"more":9223372036854775807`)
	for _, e := range all {
		items := e.Items
		e.Items = nil
		if room -= len(encode(e)) + len(`,"i":[],`); room < 0 {
			r.More += max(1, len(items))
			continue
		}
		for _, item := range items {
			if room -= lengthOf(item) + 1; room >= 0 {
				e.Items = append(e.Items, item)
			}
		}
		r.More += len(items) - len(e.Items)
		if len(items) == 0 || len(e.Items) > 0 {
			r.Events = append(r.Events, e)
		}
	}
	return encode(r)
}

// ReadEvent reads a slot of the event log. A value that does not parse does not count.
func (k Keys) ReadEvent(e store.Entry) (r EventRecord, ok bool, err error) {
	name, _ := strings.CutPrefix(e.Key, k.Events())
	slot, err := strconv.Atoi(name)
	if err != nil || slot < 0 || slot >= readEventSlots || strconv.Itoa(slot) != name {
		return EventRecord{}, false, notA("event", e, "no slot of the event log")
	}
	if len(e.Value) > readEventBytes {
		return EventRecord{}, false, store.Invalid("event", "it has %d bytes; the most is %d",
			len(e.Value), readEventBytes)
	}
	if err := decode("event", e.Value, &r); err != nil {
		return EventRecord{}, false, err
	}
	if r.At < 0 || r.At > lastMillisecond || r.More < 0 || CheckID("leader's id", r.Leader) != nil {
		return EventRecord{}, false, store.Invalid("event", "it names no time and no leader")
	}
	for _, one := range r.Events {
		if err := one.check(); err != nil {
			return EventRecord{}, false, err
		}
	}
	r.Index, r.Slot = e.ModifyIndex, slot
	return r, true, nil
}

func (e Event) check() error {
	for _, text := range []string{e.What, e.Why, e.By} {
		if len(text) > maxEventText || strings.ContainsFunc(text, unicode.IsControl) {
			return store.Invalid("event", "%q is no line of text", store.ShortenPart(text))
		}
	}
	for _, id := range append([]string{e.From, e.To}, e.Items...) {
		if id != "" && CheckID("id", id) != nil {
			return store.Invalid("event", "%q is no id", store.ShortenPart(id))
		}
	}
	if e.What == "" || e.Holds < 0 || e.Wait < 0 || e.Wait > MaxKeep.Milliseconds() ||
		slices.Contains(e.Items, "") {
		return store.Invalid("event", "%+.100v is none", e)
	}
	return nil
}

// ReadEvents reads the event log: the records in the order in which they were committed.
func (k Keys) ReadEvents(entries []store.Entry,
	unreadable func(store.Entry, string)) []EventRecord {
	var all []EventRecord
	for _, r := range Read(entries, k.ReadEvent, unreadable) {
		all = append(all, r)
	}
	// Two of one transaction have one index.
	slices.SortFunc(all, func(a, b EventRecord) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.At, b.At),
			cmp.Compare(a.Slot, b.Slot))
	})
	return all
}
