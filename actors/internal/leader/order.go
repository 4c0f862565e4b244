package leader

import (
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// order is one step of the protocol that the leader has Consul carry out. A plan holds orders; the
// writer makes the operations of a transaction from each (unit), and what was applied is taken in
// by what remembers it ([known.applied] and others).
type order struct {
	kind     orderKind
	item     string
	from, to string // members; empty where there is none
	reason   reason
	cause    string // of a grant: the text of its key
	session  string // granted to
	// key is the key at from, as the leader knows it.
	key facts.Assignment
	ack uint64 // of from, which has vanished: the index of its ack as its absence was confirmed
	// passed is what is passed on to from: the index of an order to restart, or of a change.
	passed uint64
	note   *protocol.Quarantine // what is known of the item's work, which has failed
}

type orderKind uint8

const (
	orderGrant   orderKind = iota // a free item to a member
	orderRevoke                   // the owner is to give it up
	orderCancel                   // it is to keep it after all
	orderReap                     // from a vanished member, to another
	orderErase                    // a vanished member's key of an item that nobody is to have
	orderRestart                  // the owner is to start the work once more
	orderTell                     // the owner is told that its item has changed
	orderSweep                    // what a vanished member leaves when it holds nothing
	orderForget                   // where the work of an item has failed
)

func (o order) verb() string {
	return [...]string{"granted", "revoked", "cancelled", "taken-over", "erased", "restarted",
		"changed", "swept", "forgotten"}[o.kind]
}

// lane is the member whose keys the order writes: see [store.Unit].
func (o order) lane() string {
	if o.to != "" {
		return o.to
	}
	return o.from
}

// about is the key that tells orders apart.
func (o order) about(keys protocol.Keys) string {
	if o.kind == orderForget {
		return keys.Quarantine(o.item)
	}
	return keys.Assignment(o.lane(), o.item)
}

// value is what the key of from is to say: as it is, but for what the order changes.
func (o order) value() []byte {
	a := protocol.Assignment{State: protocol.StateOwn, Session: o.key.Session,
		Reason: string(o.reason), AtOnce: o.key.AtOnce, Restart: o.key.Restart,
		Changed: o.key.Changed, Other: o.key.Other}
	switch o.kind {
	case orderRevoke:
		a.State = protocol.StateRel
	case orderRestart:
		a.Reason, a.Restart = o.key.Reason, o.passed
	case orderTell:
		a.Reason, a.Changed = o.key.Reason, o.passed
	}
	return a.Encode()
}

// encoder makes the operations of orders. It remembers what it made last: a first plan grants the
// same member 10,000 items in a row.
type encoder struct {
	keys               protocol.Keys
	to, session, cause string
	prefix             string // of the keys of to
	value              []byte
	receiver           []store.Op
}

// granted remembers the conditions and the value of a grant.
func (e *encoder) granted(o *order) {
	if e.receiver != nil && e.to == o.to && e.session == o.session && e.cause == o.cause {
		return
	}
	e.to, e.session, e.cause, e.prefix = o.to, o.session, o.cause, e.keys.AssignmentsOf(o.to)
	e.value = protocol.Assignment{State: protocol.StateOwn, Session: o.session,
		Reason: o.cause}.Encode()
	e.receiver = []store.Op{store.CheckSession(e.keys.Member(o.to), o.session)}
}

// gone are the conditions of all that is done to a vanished member's keys: it has no record, and it
// was not back since its absence was confirmed.
func (e *encoder) gone(o *order) []store.Op {
	check := store.CheckNotExists(e.keys.Ack(o.from))
	if o.ack != 0 {
		check = store.CheckIndex(e.keys.Ack(o.from), o.ack)
	}
	return []store.Op{store.CheckNotExists(e.keys.Member(o.from)), check}
}

// unit makes what the order writes, and under which conditions. The guard and a sequence key are
// before it in its transaction: see [store.Writer].
func (e *encoder) unit(o *order) store.Unit {
	u := store.Unit{Lane: o.lane(), Tag: o}
	switch o.kind {
	case orderGrant: // its receiver is registered still, and nobody has the item
		e.granted(o)
		u.Shared = e.receiver
		u.Ops = []store.Op{store.Create(e.prefix+o.item, e.value)}
	case orderReap: // the old key goes as the new one comes: there is one at each log entry
		u.Shared = append(e.gone(o), store.CheckSession(e.keys.Member(o.to), o.session))
		u.Ops = []store.Op{
			store.DeleteCAS(e.keys.Assignment(o.from, o.item), o.key.ModifyIndex),
			store.Create(e.keys.Assignment(o.to, o.item), protocol.Assignment{
				State: protocol.StateOwn, Session: o.session, Reason: o.cause,
				AtOnce: true}.Encode())}
	case orderErase:
		u.Shared = e.gone(o)
		u.Ops = []store.Op{store.DeleteCAS(e.keys.Assignment(o.from, o.item), o.key.ModifyIndex)}
	case orderSweep: // without an ack a successor knows that there is nobody to wait for
		u.Shared = e.gone(o)
		u.Ops = []store.Op{store.Delete(e.keys.AssignmentsOf(o.from)),
			store.Delete(e.keys.State(o.from))}
		if o.ack != 0 {
			u.Ops = append(u.Ops, store.Delete(e.keys.Ack(o.from)))
		}
	case orderForget:
		u.Ops = []store.Op{store.Delete(e.keys.Quarantine(o.item))}
		return u
	default: // Consul decides the race with the owner's release, by the index
		u.Ops = []store.Op{store.CAS(e.keys.Assignment(o.from, o.item), o.value(), 0,
			o.key.ModifyIndex)}
	}
	if o.note != nil { // before a grant: the item leaves its quarantine first
		u.Ops = append([]store.Op{store.Set(e.keys.Quarantine(o.item), o.note.Encode(), 0)},
			u.Ops...)
	}
	return u
}
