package routing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// assignmentKey is one assignment key as it was seen. It does not change, but for its
// place in the index.
type assignmentKey struct {
	item                 string
	peer                 *peer
	session              string
	create, modify       uint64
	releasing, malformed bool
	next                 *assignmentKey // another one's key of the same item, in the index
}

// peer is what is known of one member.
type peer struct {
	id         string
	registered bool // its record is there and locked
	leaving    bool
	idle       bool
	address    string
	session    string    // that the record is locked by
	goneAt     time.Time // when the record was seen to be gone; zero: not since it was registered
	record     uint64    // CreateIndex of the record

	ackSession string // who registered last
	ackClear   bool   // no earlier lease of this id can be valid
	ackKeep    bool   // it has stopped for a while, and its items wait for it
	ackIndex   uint64

	share []*assignmentKey // by item; changed by writers only
	index uint64           // of the view that share is from
	after uint64           // acks up to this index were there before that view was asked for
	gen   int              // in which it was read; 0: never
}

// seenUpTo is the index up to which the member's acks are older than what is known of its share.
func (p *peer) seenUpTo() uint64 { return max(p.index, p.after) }

// table folds the views of Consul's prefixes into an answer per item. It has no clock and does no
// I/O. Writers are serialised. Readers wait while a view is entered: 1 ms for 10,000 items.
type table struct {
	keys       protocol.Keys
	maxAge     time.Duration
	unreadable func(e store.Entry, why string)
	changed    *messages.State[struct{}] // set after each change
	roster     *messages.State[[]string] // the members whose shares are to be watched, by id

	writing sync.Mutex // held by the one writer

	mu       sync.RWMutex // guards what is below, and the fields of peers but for share
	items    map[string]*assignmentKey
	peers    map[string]*peer
	unread   int // registered peers whose share has not been read in this generation
	released recentlyReleased
	age      age
}

func newTable(keys protocol.Keys, maxAge time.Duration,
	unreadable func(store.Entry, string)) *table {
	return &table{
		keys: keys, maxAge: maxAge, unreadable: unreadable,
		changed: messages.NewState(struct{}{}), roster: messages.NewState[[]string](nil),
		items: map[string]*assignmentKey{}, peers: map[string]*peer{},
		released: newRecentlyReleased(),
	}
}

// members takes a view of members/, read in generation gen.
func (t *table) members(v store.View, gen int, now time.Time) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	seen := make(map[string]bool, len(v.Entries))
	for e, m := range protocol.Read(v.Entries, t.keys.ReadMember, t.unreadable) {
		if err := protocol.CheckMemberID(m.ID); err != nil {
			// no member has such an id, and the keys below it may not be listed
			t.unreadable(e, err.Error())
			continue
		}
		seen[m.ID] = true
		p := t.peer(m.ID)
		p.registered, p.goneAt, p.leaving, p.idle, p.address = true, time.Time{},
			m.Status == protocol.StatusLeaving, m.Idle, m.Address
		p.session, p.record = e.Session, e.CreateIndex
	}
	for id, p := range t.peers {
		if !seen[id] && p.registered {
			p.registered, p.goneAt = false, now
		}
	}
	t.age.membersGen, t.age.membersIndex = gen, v.Index
	t.updateAge()
	t.mu.Unlock()
	t.publish()
}

// acks takes a view of acks/.
func (t *table) acks(v store.View, gen int, _ time.Time) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	seen := make(map[string]bool, len(v.Entries))
	for e, ack := range protocol.Read(v.Entries, t.keys.ReadAck, t.unreadable) {
		seen[ack.Member] = true
		p := t.peer(ack.Member)
		if p.ackIndex == e.ModifyIndex {
			continue
		}
		p.ackSession, p.ackClear, p.ackKeep, p.ackIndex = ack.Session, ack.Clear, ack.Stopped &&
			ack.Keep > 0, e.ModifyIndex
	}
	for id, p := range t.peers {
		if !seen[id] {
			p.ackSession, p.ackClear, p.ackKeep, p.ackIndex = "", false, false, 0
			if !p.registered && p.gen == 0 {
				delete(t.peers, id)
			}
		}
	}
	t.age.acksGen, t.age.acksIndex = gen, v.Index
	t.updateAge()
	t.mu.Unlock()
	t.publish()
}

// share takes a view of assignments/<id>/ by a follower that was started when the member's newest
// ack was of index after.
func (t *table) share(id string, v store.View, gen int, now time.Time, after uint64) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	p := t.peer(id)
	t.mu.Unlock()
	next := t.parseShare(p, v.Entries)
	// Both are in the order of their items. Reading them side by side finds what came, went and
	// changed without a look at those that did not, but for a comparison.
	old := p.share
	t.mu.Lock()
	for i, j := 0, 0; i < len(old) || j < len(next); {
		switch {
		case j == len(next) || (i < len(old) && old[i].item < next[j].item):
			t.removeKey(old[i], now)
			i++
		case i == len(old) || next[j].item < old[i].item:
			t.addKey(next[j])
			j++
		default:
			if old[i] != next[j] {
				t.addKey(next[j]) // first, so that the item is never seen without a key
				t.removeKey(old[i], now)
			}
			i, j = i+1, j+1
		}
	}
	p.share, p.index, p.gen, p.after = next, v.Index, gen, after
	t.updateAge()
	t.mu.Unlock()
	t.publish()
}

// parseShare reads a share's keys, in the order of their items. A key that has not
// changed stays the assignmentKey that it was and is not parsed again.
func (t *table) parseShare(p *peer, entries []store.Entry) []*assignmentKey {
	next := make([]*assignmentKey, 0, len(entries))
	i, session := 0, ""
	prefix := t.keys.AssignmentsOf(p.id)
	for _, e := range entries {
		item := strings.TrimPrefix(e.Key, prefix)
		for i < len(p.share) && p.share[i].item < item {
			i++
		}
		var was *assignmentKey
		if i < len(p.share) && p.share[i].item == item {
			was = p.share[i]
			if was.modify == e.ModifyIndex && was.create == e.CreateIndex {
				next = append(next, was)
				continue
			}
		}
		a, ok, err := t.keys.ReadAssignment(e)
		if err != nil {
			t.unreadable(e, err.Error())
		}
		if !ok {
			continue
		}
		c := &assignmentKey{item: a.Item, peer: p, create: e.CreateIndex, modify: e.ModifyIndex,
			session: a.Session, releasing: a.State == protocol.StateRel, malformed: a.Unreadable}
		if was != nil {
			c.item = was.item // one string for each item, however often its key changes
		}
		if c.session == session {
			c.session = session // and one for each session
		} else {
			session = c.session
		}
		next = append(next, c)
	}
	// keys sort otherwise than ids only where a prefix is at play
	if !slices.IsSortedFunc(next, byItem) {
		slices.SortFunc(next, byItem)
	}
	return next
}

func byItem(a, b *assignmentKey) int { return cmp.Compare(a.item, b.item) }

func (t *table) addKey(c *assignmentKey) {
	c.next = t.items[c.item]
	t.items[c.item] = c
	t.released.drop(c.item)
}

func (t *table) removeKey(c *assignmentKey, now time.Time) {
	first := t.items[c.item]
	if first == c {
		if c.next == nil {
			delete(t.items, c.item)
			t.released.add(c.item, now)
		} else {
			t.items[c.item] = c.next
		}
		return
	}
	for at := first; at != nil; at = at.next {
		if at.next == c {
			at.next = c.next
			return
		}
	}
}

// forget drops a member whose share is not watched any more.
func (t *table) forget(id string, now time.Time) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	if p := t.peers[id]; p != nil && !p.registered {
		for _, c := range p.share {
			t.removeKey(c, now)
		}
		delete(t.peers, id)
	}
	t.updateAge()
	t.mu.Unlock()
	t.publish()
}

// peer returns what is known of a member; nothing, at first.
func (t *table) peer(id string) *peer {
	p := t.peers[id]
	if p == nil {
		p = &peer{id: id}
		t.peers[id] = p
	}
	return p
}

// publish tells that there is something new. Called by the writer, without the lock.
func (t *table) publish() {
	t.mu.RLock()
	ids := make([]string, 0, len(t.peers))
	for id, p := range t.peers {
		if p.registered || len(p.share) > 0 {
			ids = append(ids, id)
		}
	}
	t.mu.RUnlock()
	slices.Sort(ids)
	if !slices.Equal(ids, t.roster.Get()) {
		t.roster.Set(ids)
	}
	t.changed.Set(struct{}{})
}

// list returns the registered members by id, or that they are not known well enough.
func (t *table) list(now time.Time) ([]Member, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.age.fresh(now, t.maxAge) {
		return nil, false
	}
	members := make([]Member, 0, len(t.peers))
	for _, id := range slices.Sorted(maps.Keys(t.peers)) {
		if p := t.peers[id]; p.registered {
			members = append(members, Member{ID: id, Address: p.address, Leaving: p.leaving})
		}
	}
	return members, true
}
