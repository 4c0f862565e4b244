package configstore

import (
	"bytes"
	"iter"
	"slices"
	"strings"

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
	loaded bool
	index  uint64
	tree   *iradix.Tree // of *Entry
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

// next returns the snapshot after a view, which has all keys in order.
func (s Snapshot) next(keys protocol.Keys, v store.View) Snapshot {
	tree := s.tree
	if tree == nil {
		tree = iradix.New()
	}
	txn, there := tree.Txn(), make(map[string]bool, len(v.Entries))
	for _, e := range v.Entries {
		if entry, ok := fromStore(keys, e); ok {
			there[entry.Key] = true
			if old := s.find(entry.Key); old == nil || !entry.same(old) {
				txn.Insert([]byte(entry.Key), entry)
			}
		}
	}
	for e := range s.All("") {
		if !there[e.Key] {
			txn.Delete([]byte(e.Key))
		}
	}
	if tree.Root() != txn.Root() { // else what was seen before is the same as this
		tree = txn.Commit()
	}
	return Snapshot{loaded: true, index: v.Index, tree: tree}
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
