package leader

import (
	"slices"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The transactions of the leader, one function for each step of the protocol.
// Every one is sent behind the guard (check-index of the leader key at the
// epoch), so a deposed leader's is refused by Consul, however late it arrives.

// order is what one unit of a batch does, for taking its outcome into the cache.
type order struct {
	kind     orderKind
	item     string
	from, to string // members; empty where there is none
	reason   string
	cause    string // of a grant: why the item left its last owner; else reason
	session  string // granted to
	restart  uint64 // the order that it passes on
	changed  uint64 // the change that it tells of
	// what is to be known of the item's work, which has failed: of a revocation, or a new try
	note *protocol.Quarantine
}

type orderKind uint8

const (
	orderGrant orderKind = iota
	orderRevoke
	orderCancel
	orderReap  // from a vanished member, to another
	orderErase // a vanished member's key of an item that is no more
	orderRestart
	orderTell   // a member that its item has changed
	orderSweep  // what a vanished member leaves when it holds nothing
	orderForget // where the work of an item has failed
	orderEvents
)

// unitBuilder makes the unit of each order. It caches what many of them have in common, for one
// draft.
type unitBuilder struct {
	keys   protocol.Keys
	values map[protocol.Assignment][]byte
	locked map[string][]store.Op // by the session that a member's record must be locked by
	kept   map[string]bool       // members whose summaries may not be deleted
	last   struct {              // that grant was asked for: of a first plan, 10,000 times in a row
		to, session, cause string
		prefix             string // of the member's keys
		value              []byte
		shared             []store.Op
	}
}

func newUnitBuilder(keys protocol.Keys) *unitBuilder {
	return &unitBuilder{keys: keys, values: map[protocol.Assignment][]byte{},
		locked: map[string][]store.Op{}, kept: map[string]bool{}}
}

// forgetDraft drops what the last draft had in common. Each change that is told, and each session,
// is another value.
func (b *unitBuilder) forgetDraft() {
	if len(b.values)+len(b.locked) == 0 {
		return
	}
	*b = unitBuilder{keys: b.keys, kept: b.kept, values: map[protocol.Assignment][]byte{},
		locked: map[string][]store.Op{}}
}

func (b *unitBuilder) value(a protocol.Assignment) []byte {
	v, ok := b.values[a]
	if a.Other != "" {
		return a.Encode() // which may be another one for each item
	}
	if !ok {
		v = a.Encode()
		b.values[a] = v
	}
	return v
}

// receiver is the condition that a member's record is locked by session. Units
// that share it are given the very same slice.
func (b *unitBuilder) receiver(member, session string) []store.Op {
	ops, ok := b.locked[session]
	if !ok || ops[0].Key() != b.keys.Member(member) {
		ops = []store.Op{store.CheckSession(b.keys.Member(member), session)}
		b.locked[session] = ops
	}
	return ops
}

// grant gives a free item to a member: its record must be locked by the session
// that the value names, and the key must not exist. The value says the
// cause, as the event log does.
func (b *unitBuilder) grant(item, to, session, reason, cause string) store.Unit {
	l := &b.last
	if l.shared == nil || l.to != to || l.session != session || l.cause != cause {
		l.to, l.session, l.cause, l.prefix = to, session, cause, b.keys.AssignmentsOf(to)
		l.value = b.value(protocol.Assignment{State: protocol.StateOwn, Session: session,
			Reason: cause})
		l.shared = b.receiver(to, session)
	}
	return store.Unit{
		Lane:   to,
		Shared: l.shared,
		Ops:    []store.Op{store.Create(l.prefix+item, l.value)},
		Tag: order{kind: orderGrant, item: item, to: to, reason: reason, cause: cause,
			session: session},
	}
}

// revoke asks the owner to give an item up; cancel calls it back. Consul decides
// the race with the owner's release, by the index.
func (b *unitBuilder) revoke(item, from string, a messages.Assignment, reason string) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(b.keys.Assignment(from, item), b.value(protocol.Assignment{
			State: protocol.StateRel, Session: a.Session, Reason: reason,
			Restart: a.Restart, Changed: a.Changed, Other: a.Other}), 0, a.ModifyIndex)},
		Tag: order{kind: orderRevoke, item: item, from: from, reason: reason},
	}
}

// fail revokes an item whose work has failed too often, and notes where.
func (b *unitBuilder) fail(item, from string, a messages.Assignment,
	note protocol.Quarantine) store.Unit {
	reason := reasonFailing
	if note.Since != 0 {
		reason = reasonQuarantined
	}
	u := b.revoke(item, from, a, reason)
	u.Ops = append(u.Ops, store.Set(b.keys.Quarantine(item), note.Encode(), 0))
	u.Tag = order{kind: orderRevoke, item: item, from: from, reason: reason, note: &note}
	return u
}

// forget deletes what is noted of an item whose work has failed; reason empty: by an order.
func (b *unitBuilder) forget(item, reason string, note protocol.Quarantine) store.Unit {
	return store.Unit{
		Ops: []store.Op{store.Delete(b.keys.Quarantine(item))},
		Tag: order{kind: orderForget, item: item, reason: reason, note: &note},
	}
}

// retry grants an item that was quarantined to another member, where it is tried.
func (b *unitBuilder) retry(item, to, session string, note protocol.Quarantine) store.Unit {
	u := b.grant(item, to, session, reasonElsewhere, reasonFailing)
	// In this order, for whoever reads what was written one key after the other.
	u.Ops = slices.Insert(u.Ops, 0, store.Set(b.keys.Quarantine(item), note.Encode(), 0))
	u.Tag = order{kind: orderGrant, item: item, to: to, reason: reasonElsewhere,
		cause: reasonFailing, session: session, note: &note}
	return u
}

func (b *unitBuilder) cancel(item, from string, a messages.Assignment) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(b.keys.Assignment(from, item), b.value(protocol.Assignment{
			State: protocol.StateOwn, Session: a.Session, Reason: "cancelled",
			Restart: a.Restart, Changed: a.Changed, Other: a.Other}), 0, a.ModifyIndex)},
		Tag: order{kind: orderCancel, item: item, from: from, reason: "cancelled"},
	}
}

// again has the owner start the work once more, under the same key: it passes an operator's order
// on. Consul carries it out once, by the index.
func (b *unitBuilder) again(item, from string, a messages.Assignment, restart uint64) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(b.keys.Assignment(from, item), b.value(protocol.Assignment{
			State: protocol.StateOwn, Session: a.Session, Reason: a.Reason, AtOnce: a.AtOnce,
			Restart: restart, Changed: a.Changed, Other: a.Other}), 0, a.ModifyIndex)},
		Tag: order{kind: orderRestart, item: item, from: from, reason: "restart",
			restart: restart},
	}
}

// tell tells the owner that the item has changed in the workload, under the same key.
func (b *unitBuilder) tell(item, from string, a messages.Assignment, changed uint64) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(b.keys.Assignment(from, item), b.value(protocol.Assignment{
			State: protocol.StateOwn, Session: a.Session, Reason: a.Reason, AtOnce: a.AtOnce,
			Restart: a.Restart, Changed: changed, Other: a.Other}), 0, a.ModifyIndex)},
		Tag: order{kind: orderTell, item: item, from: from, reason: "changed", changed: changed},
	}
}

// stillGone are the conditions of everything that is done to a vanished
// member's keys: it has no record, and it was not back since the grace began.
func (b *unitBuilder) stillGone(member string, ack uint64) []store.Op {
	check := store.CheckNotExists(b.keys.Ack(member))
	if ack != 0 {
		check = store.CheckIndex(b.keys.Ack(member), ack)
	}
	return []store.Op{store.CheckNotExists(b.keys.Member(member)), check}
}

// reap moves a vanished member's item: the old key goes and the new one comes in
// one transaction, so that at every log entry there is at most one.
func (b *unitBuilder) reap(item, from string, a messages.Assignment, ack uint64, to, session,
	reason, prefers string) store.Unit {
	return store.Unit{
		Lane:   to,
		Shared: append(b.stillGone(from, ack), store.CheckSession(b.keys.Member(to), session)),
		Ops: []store.Op{
			store.DeleteCAS(b.keys.Assignment(from, item), a.ModifyIndex),
			store.Create(b.keys.Assignment(to, item), b.value(protocol.Assignment{
				State: protocol.StateOwn, Session: session, Reason: reason + prefers,
				AtOnce: true})),
		},
		Tag: order{kind: orderReap, item: item, from: from, to: to, reason: reason,
			cause: reason + prefers, session: session},
	}
}

// erase deletes a vanished member's key of an item that nobody is to have: it is no longer in the
// workload, or quarantined.
func (b *unitBuilder) erase(item, from string, a messages.Assignment, ack uint64,
	reason string) store.Unit {
	return store.Unit{
		Lane:   from,
		Shared: b.stillGone(from, ack),
		Ops:    []store.Op{store.DeleteCAS(b.keys.Assignment(from, item), a.ModifyIndex)},
		Tag:    order{kind: orderErase, item: item, from: from, reason: reason},
	}
}

// sweep deletes what a vanished member leaves when it holds nothing any more.
// Without an acks key a successor knows that there is nobody to wait for; that is
// true, for the grace is over.
func (b *unitBuilder) sweep(member string, ack uint64) store.Unit {
	ops := []store.Op{store.Delete(b.keys.AssignmentsOf(member))}
	if !b.kept[member] {
		ops = append(ops, store.Delete(b.keys.State(member)))
	}
	if ack != 0 {
		ops = append(ops, store.Delete(b.keys.Ack(member)))
	}
	return store.Unit{
		Lane: member, Shared: b.stillGone(member, ack), Ops: ops,
		Tag: order{kind: orderSweep, from: member},
	}
}
