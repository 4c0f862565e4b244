package protocol

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coordd/coordd/internal/store"
)

// Orders are what operators have written under [Keys.Control]. They stand until they are taken
// back, under any leader.
type Orders struct {
	Frozen bool
	// Override is the ModifyIndex of the order to release the brake, 0 if there is none; and
	// OverrideAt is when it was given, by the clock of who gave it.
	Override   uint64
	OverrideAt time.Time
	// Drained says of each drained member until when it gives up its items within the move budget;
	// then it gives up all that are left at once. Zero: the budget holds without end.
	Drained map[string]time.Time
	// By says who gave an order, or took it back, by its name: its key without [Keys.Control].
	// Those to freeze, to drain and to restart say it themselves. [Signature] says it of the
	// others, as long as its operator's transaction is the last one.
	By map[string]string
	// At says when the orders to freeze and to drain were given, likewise, by the clock of who gave
	// them.
	At   map[string]time.Time
	Pins map[string]string // the member of each pinned item
	// Preferred is the member that an item goes to when that one takes items and has room.
	Preferred map[string]string
	// RestartItems and RestartMembers are the ModifyIndexes of the orders to start the work of an
	// item, or of all that a member has, once more. An order is about what was granted before it.
	RestartItems, RestartMembers map[string]uint64
}

// Control returns the prefix of what operators write.
func (k Keys) Control() string { return k.root + "control/" }

// Freeze returns the key of the order to plan nothing.
func (k Keys) Freeze() string { return k.Control() + FreezeOrder }

// Override returns the key of the order to release the brake.
func (k Keys) Override() string { return k.Control() + OverrideOrder }

// Drain returns the key of the order to empty member m.
func (k Keys) Drain(m string) string { return k.Control() + DrainOrder(m) }

// Pin returns the key of the order to keep item w on the member that its value names.
func (k Keys) Pin(w string) string { return k.Control() + PinOrder(w) }

// Prefer returns the key of the order to have item w on the member that its value names, when that
// takes items and has room.
func (k Keys) Prefer(w string) string { return k.Control() + PreferOrder(w) }

// RestartItem returns the key of the order to start the work of item w once more.
func (k Keys) RestartItem(w string) string { return k.Control() + RestartItemOrder(w) }

// RestartMember returns the key of the order to start all work of member m once more.
func (k Keys) RestartMember(m string) string { return k.Control() + RestartMemberOrder(m) }

// until separates when an order to empty a member was given from its deadline. What comes behind a
// further space is not read.
const until = " until "

// EncodeDrain returns the value of an order to empty a member that is given at a time: see
// [Orders.Drained]. A zero deadline means none: then it is the time alone, as since the first
// version, whose leaders give up all at once. Both are by the clock of who gives it.
func EncodeDrain(at, deadline time.Time) []byte {
	value := at.UTC().Format(time.RFC3339Nano)
	if !deadline.IsZero() {
		value += until + deadline.UTC().Format(time.RFC3339Nano)
	}
	return []byte(value)
}

// drainDeadline is zero for a value that it cannot read: the order stands all the same.
func drainDeadline(value []byte) time.Time {
	_, rest, _ := strings.Cut(string(value), until)
	rest, _, _ = strings.Cut(rest, " ")
	deadline, err := time.Parse(time.RFC3339Nano, rest)
	if err != nil {
		return time.Time{}
	}
	return deadline.UTC()
}

// ReadOrders reads everything under [Keys.Control]. An order that does not parse is none, so that
// nothing happens that nobody ordered. That an order to freeze, drain or release the brake stands
// is said by its key: its value may be anything.
func (k Keys) ReadOrders(entries []store.Entry, unreadable func(store.Entry, string)) Orders {
	o := Orders{Drained: map[string]time.Time{}, Pins: map[string]string{},
		Preferred: map[string]string{}, By: map[string]string{}, At: map[string]time.Time{},
		RestartItems: map[string]uint64{}, RestartMembers: map[string]uint64{}}
	for _, e := range entries {
		if e.Key == k.Signature() {
			k.signAll(entries, e, o)
		}
	}
	for _, e := range entries {
		kind, id, _ := strings.Cut(strings.TrimPrefix(e.Key, k.Control()), "/")
		switch value := string(e.Value); {
		case sentinel(e), e.Key == k.Signature():
		case e.Key == k.Freeze():
			o.Frozen = true
			k.sign(e, o)
			k.date(e, o)
		case e.Key == k.Override():
			o.Override = e.ModifyIndex
			o.OverrideAt, _ = time.Parse(time.RFC3339Nano, value)
		case kind == "drain" && CheckID("member id", id) == nil:
			o.Drained[id] = drainDeadline(e.Value)
			k.sign(e, o)
			k.date(e, o)
		case kind == "pins" && CheckID("item id", id) == nil && CheckID("member id", value) == nil:
			o.Pins[id] = value
		case kind == "prefers" && CheckID("item id", id) == nil &&
			CheckID("member id", value) == nil:
			o.Preferred[id] = value
		case kind == "restart" && k.restart(e, id, o):
		default:
			unreadable(e, "no order that this version knows")
		}
	}
	return o
}

// signed separates when an order was given and by whom.
const signed = " by "

// SignOrder adds to the value of an order to freeze, drain or restart who gave it; empty: nobody
// says.
// What no reader would believe is left out.
func SignOrder(value []byte, by string) []byte {
	if !signature(by) {
		return value
	}
	return append(value, signed+by...)
}

func signature(by string) bool {
	return by != "" && len(by) <= MaxIDBytes && utf8.ValidString(by) &&
		!strings.ContainsFunc(by, unicode.IsControl)
}

// sign notes who gave an order, where its value says so.
func (k Keys) sign(e store.Entry, o Orders) {
	if _, by, ok := strings.Cut(string(e.Value), signed); ok && signature(by) {
		o.By[strings.TrimPrefix(e.Key, k.Control())] = by
	}
}

// date notes when an order was given, where its value says so.
func (k Keys) date(e store.Entry, o Orders) {
	text, _, _ := strings.Cut(string(e.Value), " ")
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		o.At[strings.TrimPrefix(e.Key, k.Control())] = at.UTC()
	}
}

// restart takes in an order to restart; false: it is none.
func (k Keys) restart(e store.Entry, what string, o Orders) bool {
	kind, id, _ := strings.Cut(what, "/")
	switch {
	case kind == "items" && CheckID("item id", id) == nil:
		o.RestartItems[id] = e.ModifyIndex
	case kind == "members" && CheckID("member id", id) == nil:
		o.RestartMembers[id] = e.ModifyIndex
	default:
		return false
	}
	k.sign(e, o)
	return true
}
