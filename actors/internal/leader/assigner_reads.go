package leader

import (
	"context"
	"maps"
	"slices"

	"github.com/coordd/coordd/internal/store"
)

// What the assigner reads of Consul by itself: what is assigned is never watched.

// readAll reads the whole assignments tree: once per epoch, never watched.
func (a *Assigner) readAll(ctx context.Context) error {
	acks := a.acks.Get().Items // as they were before the read
	var entries []store.Entry
	err := unanswered("reading what is assigned")
	notes := notesRead{err: unanswered("reading where work has failed")}
	// Side by side: where no work has failed the list of the notes is empty, and takes two answers.
	together(2, func(i int) {
		if i == 0 {
			entries, _, err = a.Store.List(ctx, a.Keys.Assignments(), store.Consistent)
		} else {
			notes = a.readNotes(ctx)
		}
	})
	if err != nil {
		return err
	}
	a.assigned.load(a.Keys, entries, &a.odd)
	a.events.still(a.assigned)
	if err := a.takeNotes(ctx, notes); err != nil {
		return err
	}
	clear(a.readAt)
	clear(a.failing)
	for id, ack := range acks.All() {
		a.toReadFailing(id, ack)
		a.readAt[id] = ack.ModifyIndex
	}
	if a.Observer != nil {
		a.ledger.begin(a.assigned.members)
	}
	if a.inherited {
		return nil
	}
	return a.inherit(ctx)
}

// readRaised reads the keys of each member that has raised its ack since.
func (a *Assigner) readRaised(ctx context.Context) error {
	acks := a.acks.Get().Items
	raised := map[string]uint64{}
	for id, ack := range acks.All() {
		if ack.ModifyIndex != a.readAt[id] {
			raised[id] = ack.ModifyIndex
		}
	}
	for id := range a.readAt {
		if !acks.Has(id) { // it said goodbye, and took its keys along
			raised[id] = 0
		}
	}
	if len(raised) > 32 {
		return a.readAll(ctx)
	}
	ids := slices.Sorted(maps.Keys(raised))
	read := a.readKeys(ctx, ids)
	for i, id := range ids {
		if read[i].err != nil {
			return a.readAll(ctx) // that may be about this one alone
		}
		before := a.assigned.members[id]
		a.assigned.loadMember(a.Keys, id, read[i].entries, &a.odd)
		a.gaveUp(id, before, a.assigned.members[id])
		ack, _ := acks.Get(id)
		a.toReadFailing(id, ack)
		if index := raised[id]; index == 0 {
			delete(a.readAt, id)
		} else {
			a.readAt[id] = index
		}
	}
	return nil
}

// keysRead is what came of reading the keys of one member.
type keysRead struct {
	entries []store.Entry
	err     error
}

// readKeys reads the keys of each of the members, several at one time.
func (a *Assigner) readKeys(ctx context.Context, members []string) []keysRead {
	read := make([]keysRead, len(members))
	for i, id := range members {
		read[i].err = unanswered("reading the items of " + id)
	}
	together(len(members), func(i int) {
		r := &read[i]
		r.entries, _, r.err = a.Store.List(ctx, a.Keys.AssignmentsOf(members[i]), store.Consistent)
	})
	return read
}
