package actors

import (
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
	session  string // granted to
}

type orderKind uint8

const (
	orderGrant orderKind = iota
	orderRevoke
	orderCancel
	orderReap  // from a vanished member, to another
	orderErase // a vanished member's key of an item that is no more
	orderSweep // what a vanished member leaves when it holds nothing
)

// clerk writes orders as units. It caches what many of them have in common.
type clerk struct {
	keys   store.Keys
	values map[store.Assignment][]byte
	locked map[string][]store.Op // by the session that a member's record must be locked by
}

func newClerk(keys store.Keys) *clerk {
	return &clerk{keys: keys, values: map[store.Assignment][]byte{},
		locked: map[string][]store.Op{}}
}

func (c *clerk) value(state, session, reason string) []byte {
	a := store.Assignment{State: state, Session: session, Reason: reason}
	v, ok := c.values[a]
	if !ok {
		v = a.Encode()
		c.values[a] = v
	}
	return v
}

// receiver is the condition that a member's record is locked by session. Units
// that share it are given the very same slice.
func (c *clerk) receiver(member, session string) []store.Op {
	ops, ok := c.locked[session]
	if !ok || ops[0].Key() != c.keys.Member(member) {
		ops = []store.Op{store.CheckSession(c.keys.Member(member), session)}
		c.locked[session] = ops
	}
	return ops
}

// grant gives a free item to a member: its record must be locked by the session
// that the value names, and the key must not exist.
func (c *clerk) grant(item, to, session, reason string) store.Unit {
	return store.Unit{
		Lane:   to,
		Shared: c.receiver(to, session),
		Ops: []store.Op{store.Create(c.keys.Assignment(to, item), c.value(store.StateOwn,
			session, reason))},
		Tag: order{kind: orderGrant, item: item, to: to, reason: reason, session: session},
	}
}

// revoke asks the owner to give an item up; cancel calls it back. Consul decides
// the race with the owner's release, by the index.
func (c *clerk) revoke(item, from string, a messages.Assignment, reason string) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(c.keys.Assignment(from, item), c.value(store.StateRel, a.Session,
			reason), 0, a.ModifyIndex)},
		Tag: order{kind: orderRevoke, item: item, from: from, reason: reason},
	}
}

func (c *clerk) cancel(item, from string, a messages.Assignment) store.Unit {
	return store.Unit{
		Lane: from,
		Ops: []store.Op{store.CAS(c.keys.Assignment(from, item), c.value(store.StateOwn, a.Session,
			"cancelled"), 0, a.ModifyIndex)},
		Tag: order{kind: orderCancel, item: item, from: from, reason: "cancelled"},
	}
}

// stillGone are the conditions of everything that is done to a vanished
// member's keys: it has no record, and it was not back since the grace began.
func (c *clerk) stillGone(member string, ack uint64) []store.Op {
	check := store.CheckNotExists(c.keys.Ack(member))
	if ack != 0 {
		check = store.CheckIndex(c.keys.Ack(member), ack)
	}
	return []store.Op{store.CheckNotExists(c.keys.Member(member)), check}
}

// reap moves a vanished member's item: the old key goes and the new one comes in
// one transaction, so that at every log entry there is at most one.
func (c *clerk) reap(item, from string, a messages.Assignment, ack uint64, to, session,
	reason string) store.Unit {
	return store.Unit{
		Lane:   to,
		Shared: append(c.stillGone(from, ack), store.CheckSession(c.keys.Member(to), session)),
		Ops: []store.Op{
			store.DeleteCAS(c.keys.Assignment(from, item), a.ModifyIndex),
			store.Create(c.keys.Assignment(to, item), c.value(store.StateOwn, session, reason)),
		},
		Tag: order{kind: orderReap, item: item, from: from, to: to, reason: reason,
			session: session},
	}
}

// erase deletes a vanished member's key of an item that is no longer in the workload.
func (c *clerk) erase(item, from string, a messages.Assignment, ack uint64) store.Unit {
	return store.Unit{
		Lane:   from,
		Shared: c.stillGone(from, ack),
		Ops:    []store.Op{store.DeleteCAS(c.keys.Assignment(from, item), a.ModifyIndex)},
		Tag:    order{kind: orderErase, item: item, from: from, reason: "removed"},
	}
}

// sweep deletes what a vanished member leaves when it holds nothing any more.
// Without an acks key a successor knows that there is nobody to wait for; that is
// true, for the grace is over.
func (c *clerk) sweep(member string, ack uint64) store.Unit {
	ops := []store.Op{store.Delete(c.keys.AssignmentsOf(member))}
	if ack != 0 {
		ops = append(ops, store.Delete(c.keys.Ack(member)))
	}
	return store.Unit{
		Lane: member, Shared: c.stillGone(member, ack), Ops: ops,
		Tag: order{kind: orderSweep, from: member},
	}
}
