package actors

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// ledger is the leader's copy of the assignment keys: read whole when it takes
// office, then kept by what its own transactions answer and, for a member that
// has raised its ack, by reading that member's keys again. Nobody else creates
// keys, so an item without a key here stays without one until this leader acts.
type ledger struct {
	members map[string]map[string]messages.Assignment
}

func newLedger() *ledger { return &ledger{members: map[string]map[string]messages.Assignment{}} }

// load replaces the whole ledger.
func (l *ledger) load(keys store.Keys, entries []store.Entry, odd *store.StrangeKeys) {
	clear(l.members)
	for _, e := range entries {
		l.enter(keys, e, odd)
	}
}

// loadMember replaces what is known of one member.
func (l *ledger) loadMember(keys store.Keys, member string, entries []store.Entry,
	odd *store.StrangeKeys) {
	delete(l.members, member)
	for _, e := range entries {
		l.enter(keys, e, odd)
	}
}

func (l *ledger) enter(keys store.Keys, e store.Entry, odd *store.StrangeKeys) {
	member, item, ok := keys.ParseAssignment(e.Key)
	if !ok {
		odd.Skip(e, "no assignment key")
		return
	}
	if item == "" {
		return // the sentinel
	}
	a, err := assignmentOf(e)
	if err != nil {
		// It has a key, so it may be worked on: it counts as owned, and is given to
		// nobody else before its owner has released it.
		odd.Skip(e, err.Error()+"; it is taken back from "+member)
	}
	l.set(member, item, a)
}

// assignmentOf reads an entry of the assignments tree.
func assignmentOf(e store.Entry) (messages.Assignment, error) {
	a, err := store.ParseAssignment(e.Value)
	return messages.Assignment{
		Releasing: a.State == store.StateRel, Unreadable: err != nil, Session: a.Session,
		Reason:      a.Reason,
		CreateIndex: e.CreateIndex, ModifyIndex: e.ModifyIndex,
	}, err
}

func (l *ledger) set(member, item string, a messages.Assignment) {
	items := l.members[member]
	if items == nil {
		items = map[string]messages.Assignment{}
		l.members[member] = items
	}
	items[item] = a
}

func (l *ledger) drop(member, item string) {
	if items := l.members[member]; items != nil {
		delete(items, item)
		if len(items) == 0 {
			delete(l.members, member)
		}
	}
}

// holders names the members that have keys, in order.
func (l *ledger) holders() []string { return slices.Sorted(maps.Keys(l.members)) }
