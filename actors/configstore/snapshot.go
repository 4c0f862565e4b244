package configstore

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	iradix "github.com/hashicorp/go-immutable-radix"
)

// Entry is one key with its value.
type Entry struct {
	Key   string
	Value []byte // never nil; empty is a value
	// Index is the key's ModifyIndex: what CompareAndSet compares.
	Index       uint64
	CreateIndex uint64
	Flags       uint64
}

// Snapshot is all of the configuration at one moment. It never changes; its values must not be
// written to. The zero Snapshot is empty and not loaded.
type Snapshot struct {
	loaded   bool
	index    uint64       // of the newest view
	tree     *iradix.Tree // of *Entry
	versions *versions    // of what is in tree
	own      []ownWrite   // writes of this store that the newest view does not show yet
	ownCount uint64       // number of the newest write of this store
}

// ownWrite is an acknowledged write of this store.
type ownWrite struct {
	number uint64
	index  uint64 // of the log entry; a view from this index on shows the write
	key    string
	entry  *Entry // nil: deleted
}

// Loaded tells whether it was ever read from Consul.
func (s Snapshot) Loaded() bool { return s.loaded }

// Len is the number of keys.
func (s Snapshot) Len() int {
	if s.tree == nil {
		return 0
	}
	return s.tree.Len()
}

// Get returns the entry of a key.
func (s Snapshot) Get(key string) (Entry, bool) {
	if e := s.find(key); e != nil {
		return *e, true
	}
	return Entry{}, false
}

func (s Snapshot) find(key string) *Entry {
	if s.tree == nil {
		return nil
	}
	if v, ok := s.tree.Get([]byte(key)); ok {
		return v.(*Entry)
	}
	return nil
}

// All yields the entries whose keys begin with prefix, in the order of their keys.
func (s Snapshot) All(prefix string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if s.tree == nil {
			return
		}
		s.tree.Root().WalkPrefix([]byte(prefix), func(_ []byte, v any) bool {
			return !yield(*v.(*Entry))
		})
	}
}

func fromStore(keys protocol.Keys, e store.Entry) (*Entry, bool) {
	name, ok := keys.ParseConfigKey(e.Key)
	if !ok {
		return nil, false
	}
	return &Entry{Key: name, Value: e.Value, Index: e.ModifyIndex, CreateIndex: e.CreateIndex,
		Flags: e.Flags}, true
}

func (e *Entry) same(o *Entry) bool {
	return e.Index == o.Index && e.CreateIndex == o.CreateIndex && e.Flags == o.Flags &&
		bytes.Equal(e.Value, o.Value)
}

// watchedView is a view that the watcher has read: all keys, in order.
type watchedView struct {
	view store.View
	// ownBefore is how many own writes were acknowledged before the last whole, consistent read
	// began. A view from then on shows them, or Consul has lost them.
	ownBefore uint64
	readBegan time.Time // when that read began
	serial    uint64
	entries   []*Entry
}

// merge returns the snapshot after a view. It keeps the own writes whose index the view has not
// reached. After Consul was restored indexes say nothing. Then what was acknowledged before a
// whole, consistent read began is in that read, or is lost.
func (s Snapshot) merge(v watchedView) Snapshot {
	next := Snapshot{loaded: true, index: v.view.Index, ownCount: s.ownCount, tree: s.tree,
		versions: s.versions}
	for _, o := range s.own {
		if o.index > v.view.Index && o.number > v.ownBefore {
			next.own = append(next.own, o)
		}
	}
	tree := s.tree
	if tree == nil {
		tree = iradix.New()
	}
	txn := tree.Txn()
	var gone [][]byte
	rest := v.entries
	tree.Root().Walk(func(k []byte, old any) bool {
		for len(rest) > 0 && rest[0].Key < string(k) {
			txn.Insert([]byte(rest[0].Key), rest[0])
			rest = rest[1:]
		}
		switch {
		case len(rest) == 0 || rest[0].Key != string(k):
			gone = append(gone, k)
		default:
			if !rest[0].same(old.(*Entry)) {
				txn.Insert(k, rest[0])
			}
			rest = rest[1:]
		}
		return false
	})
	for _, e := range rest {
		txn.Insert([]byte(e.Key), e)
	}
	for _, k := range gone {
		txn.Delete(k)
	}
	for _, o := range next.own {
		o.put(txn)
	}
	next.hold(txn)
	return next
}

// hold takes the tree of a transaction, unless that has changed nothing.
func (s *Snapshot) hold(txn *iradix.Txn) {
	if s.tree == nil || s.tree.Root() != txn.Root() {
		s.tree, s.versions = txn.Commit(), &versions{}
	}
}

// ofOneMoment tells whether the snapshot shows what Consul had at one moment. It does not while it
// has own writes that the newest view does not show: it lacks what others wrote before them.
func (s Snapshot) ofOneMoment() bool { return len(s.own) == 0 }

func (o ownWrite) put(txn *iradix.Txn) {
	if o.entry == nil {
		txn.Delete([]byte(o.key))
		return
	}
	txn.Insert([]byte(o.key), o.entry)
}

// apply returns the snapshot after writes of one transaction of this store.
func (s Snapshot) apply(writes []ownWrite) Snapshot {
	next := s
	next.own = slices.Clone(s.own)
	next.ownCount++
	if !s.loaded {
		return next // the first read will show them
	}
	txn := s.tree.Txn()
	for _, o := range writes {
		if o.index <= s.index {
			continue // the view has the write, or a later one
		}
		o.number = next.ownCount
		next.own = append(next.own, o)
		o.put(txn)
	}
	next.hold(txn)
	return next
}

// Change is what became of one key.
type Change struct {
	Entry   // of a deleted key only the Key
	Deleted bool
}

// changes lists what differs in next, ordered by key.
func (s Snapshot) changes(next Snapshot, prefix string, exact bool) []Change {
	if s.loaded == next.loaded && s.tree == next.tree {
		return nil
	}
	if exact {
		was, is := s.find(prefix), next.find(prefix)
		switch {
		case is == nil && was == nil, is != nil && was != nil && is.same(was):
			return nil
		case is == nil:
			return []Change{{Entry: Entry{Key: prefix}, Deleted: true}}
		}
		return []Change{{Entry: *is}}
	}
	var out []Change
	for e := range next.All(prefix) {
		if was := s.find(e.Key); was == nil || !was.same(&e) {
			out = append(out, Change{Entry: e})
		}
	}
	for e := range s.All(prefix) {
		if next.find(e.Key) == nil {
			out = append(out, Change{Entry: Entry{Key: e.Key}, Deleted: true})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return out
}
