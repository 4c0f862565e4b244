package leader

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// known is the leader's copy of the assignment keys, by member and item. The leader reads all of
// them when an epoch begins. Afterwards the answers to its own transactions keep the copy up to
// date, and a member that has raised its ack has its keys read again. Nobody else creates keys, so
// an item without a key here stays without one until this leader acts.
type known map[string]map[string]facts.Assignment

// load replaces what is known of one member; of all with the empty string.
func (k known) load(keys protocol.Keys, member string, entries []store.Entry,
	skip func(store.Entry, string)) {
	if member == "" {
		clear(k)
	}
	delete(k, member)
	for e, a := range protocol.Read(entries, keys.ReadAssignment, skip) {
		k.set(a.Member, a.Item, actor.AssignmentOf(e, a))
	}
}

func (k known) set(member, item string, a facts.Assignment) {
	items := k[member]
	if items == nil {
		items = map[string]facts.Assignment{}
		k[member] = items
	}
	items[item] = a
}

func (k known) drop(member, item string) {
	delete(k[member], item)
	if len(k[member]) == 0 {
		delete(k, member)
	}
}

// holders names the members that have keys, in order.
func (k known) holders() []string { return slices.Sorted(maps.Keys(k)) }

// applied takes in an order that was carried out with that index.
func (k known) applied(o *order, index uint64) {
	switch o.kind {
	case orderGrant, orderReap:
		if o.kind == orderReap {
			k.drop(o.from, o.item)
		}
		k.set(o.to, o.item, facts.Assignment{Session: o.session, Reason: o.cause,
			AtOnce: o.kind == orderReap, CreateIndex: index, ModifyIndex: index})
	case orderErase:
		k.drop(o.from, o.item)
	case orderRevoke, orderCancel, orderRestart, orderTell:
		a := k[o.from][o.item]
		a.ModifyIndex = index
		switch o.kind {
		case orderRestart:
			a.Restart = o.passed
		case orderTell:
			a.Changed = o.passed
		default:
			a.Releasing, a.Reason, a.Unreadable = o.kind == orderRevoke, string(o.reason), false
		}
		k.set(o.from, o.item, a)
	}
}
