package routing

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// A grant raises no ack: a long poll that has died unnoticed hides it for as long as the poll would
// have waited, and no pulse finds that out. So "no owner" is said only when Consul was looked at
// within the last second.

// keysPerRead is how many keys of an item count as one more read.
const keysPerRead = 25

var (
	errMembersBehind = errors.New("a change of the members is just being read")
	errShareBehind   = errors.New("a change of a member's items is just being read")
)

// foundKey is an assignment key that Consul has; without a member there is none.
type foundKey struct {
	member string
	modify uint64
}

// inWorkload tells whether an item is in the workload.
func (r *Router) inWorkload(ctx context.Context, item string) (bool, error) {
	found, err := r.lookups.ask(ctx, "workload/"+item, 1, func(call context.Context) (l lookup,
		err error) {
		_, l.exists, _, err = r.store.Get(call, r.keys.WorkItem(item), store.Consistent)
		return l, err
	})
	return found.exists, err
}

// allMembers asks whether the table has all members. The time is as of when it does.
func (r *Router) allMembers(ctx context.Context) (time.Time, error) {
	found, err := r.lookups.ask(ctx, "members", 1, func(call context.Context) (l lookup,
		err error) {
		l.index, err = r.store.PrefixIndex(call, r.keys.Members())
		return l, err
	})
	if err == nil && !r.table.hasMembers(found.index) {
		err = errMembersBehind
	}
	return found.at, err
}

// confirmNoKey returns nil if no registered member has a key of the item.
func (r *Router) confirmNoKey(ctx context.Context, item string) error {
	asOf, err := r.allMembers(ctx)
	if err != nil {
		return err
	}
	ids := r.table.registered()
	found, err := r.lookups.ask(ctx, "keys/"+item, 1+len(ids)/keysPerRead,
		func(call context.Context) (lookup, error) {
			key, err := r.keyOf(call, item, ids)
			return lookup{at: asOf, key: key}, err
		})
	if err != nil || found.key.member == "" {
		return err
	}
	r.noteStale(found.key.member, found.key.modify)
	return errShareBehind
}

// keyOf reads an item's key at each of the members.
func (r *Router) keyOf(ctx context.Context, item string, ids []string) (foundKey, error) {
	for some := range slices.Chunk(ids, store.MaxOps) {
		ops := make([]store.Op, len(some))
		for i, id := range some {
			ops[i] = store.GetOrEmpty(r.keys.Assignment(id, item))
		}
		res, err := r.store.ReadTxn(ctx, ops...)
		if err != nil {
			return foundKey{}, err
		}
		for i, e := range res.Entries {
			if e.CreateIndex > 0 {
				return foundKey{some[i], e.ModifyIndex}, nil
			}
		}
	}
	return foundKey{}, nil
}

// confirmVanished returns nil if the keys of a vanished member are as the table has them, and it is
// still gone.
func (r *Router) confirmVanished(ctx context.Context, id string) error {
	asOf, err := r.allMembers(ctx)
	if err != nil {
		return err
	}
	found, err := r.lookups.ask(ctx, "share/"+id, 1, func(call context.Context) (l lookup,
		err error) {
		l.at = asOf
		l.index, err = r.store.PrefixIndex(call, r.keys.AssignmentsOf(id))
		return l, err
	})
	if err != nil {
		return err
	}
	if have, _ := r.table.seen(id); have < found.index {
		r.noteStale(id, found.index)
		return errShareBehind
	}
	return nil
}

// noteStale notes that the view of a member's share does not go up to index.
func (r *Router) noteStale(id string, index uint64) {
	have, ack := r.table.seen(id)
	if r.staleShares.dueForReread(id, index, have, time.Now()) {
		r.staleShares.reread(map[string]uint64{id: ack})
	}
}

// staleShares are the members whose shares the table does not show as they are.
type staleShares struct {
	mu     sync.Mutex
	seenAt map[string]staleIndex
	// the shares that are to be read again -> the ack that was known then
	toReread map[string]uint64
	changed  *messages.State[struct{}]
}

// staleIndex is the index that a poll had not brought at a moment.
type staleIndex struct {
	index uint64
	at    time.Time
}

func newStaleShares() *staleShares {
	return &staleShares{seenAt: map[string]staleIndex{}, toReread: map[string]uint64{},
		changed: messages.NewState(struct{}{})}
}

// dueForReread tells whether a share is to be read again: what is missed now for the first time may
// be under way.
func (m *staleShares) dueForReread(id string, index, have uint64, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, known := m.seenAt[id]
	again := known && have < first.index
	if again && now.Sub(first.at) < lookupTTL {
		return false
	}
	m.seenAt[id] = staleIndex{index, now}
	return again
}

// reread has shares read again.
func (m *staleShares) reread(shares map[string]uint64) {
	m.mu.Lock()
	for id, ack := range shares {
		m.toReread[id] = max(ack, m.toReread[id])
	}
	m.mu.Unlock()
	m.changed.Set(struct{}{})
}

// take returns the shares to be read again.
func (m *staleShares) take() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	shares := m.toReread
	m.toReread = map[string]uint64{}
	return shares
}
