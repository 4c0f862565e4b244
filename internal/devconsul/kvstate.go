package devconsul

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix"
)

// Entry is one key as Consul stores and shows it.
type Entry struct {
	// LockIndex counts acquisitions. It is no fencing token: a plain write sets it back to 0, a
	// delete or a restore lets it start again.
	LockIndex uint64
	Key       string
	Flags     uint64
	Value     []byte
	Session   string `json:",omitempty"`
	// CreateIndex stays while the key exists; ModifyIndex rises with each change of it.
	CreateIndex uint64
	ModifyIndex uint64
}

func (e *Entry) same(o *Entry) bool {
	return e.LockIndex == o.LockIndex && e.Flags == o.Flags && e.Session == o.Session &&
		bytes.Equal(e.Value, o.Value)
}

// tombstone remembers the index of a delete, so that the index of a prefix does not go back.
type tombstone struct {
	Key   string
	Index uint64
	At    time.Time
}

// tombstoneTTL is how long Consul keeps a tombstone (tombstone_ttl, 15 min by default).
const tombstoneTTL = 15 * time.Minute

// tombstoneStep is how much later they may be removed: an entry of the log removes many at once.
const tombstoneStep = 30 * time.Second

func lookup(n *iradix.Node, key string) *Entry {
	v, ok := n.Get(treeKey(key))
	if !ok {
		return nil
	}
	return v.(*Entry)
}

func (w *writeTxn) get(key string) *Entry { return lookup(w.root(treeKV), key) }

// set stores e and returns what is then stored. Unless withSession is set the lock stays with its
// holder. Writing what is there already changes nothing: no index rises and nobody is
// woken.
func (w *writeTxn) set(e Entry, withSession bool) *Entry {
	old := w.get(e.Key)
	e.CreateIndex = w.idx
	if old != nil {
		e.CreateIndex = old.CreateIndex
	}
	if !withSession {
		e.Session = ""
		if old != nil {
			e.Session = old.Session
		}
	}
	if old != nil && old.same(&e) {
		return old
	}
	e.ModifyIndex = w.idx
	w.open(treeKV).Insert(treeKey(e.Key), &e)
	w.state.idx.KV = w.idx
	w.moveHold(old, &e)
	return &e
}

// moveHold keeps the list of keys that each session holds.
func (w *writeTxn) moveHold(old, now *Entry) {
	var was, is string
	if old != nil {
		was = old.Session
	}
	if now != nil {
		is = now.Session
	}
	if was == is {
		return
	}
	if was != "" {
		w.open(treeHeld).Delete(treeKey(fold(was), old.Key))
	}
	if is != "" {
		w.open(treeHeld).Insert(treeKey(fold(is), now.Key), now.Key)
	}
}

// setCAS writes e if the key's ModifyIndex is want; 0 means that there must be no such key.
func (w *writeTxn) setCAS(e Entry, want uint64) (*Entry, bool) {
	old := w.get(e.Key)
	if want == 0 && old != nil || want != 0 && (old == nil || old.ModifyIndex != want) {
		return nil, false
	}
	return w.set(e, false), true
}

// lock writes e and gives the key to e.Session. False: somebody else holds it.
func (w *writeTxn) lock(e Entry) (*Entry, bool, error) {
	if e.Session == "" {
		return nil, false, fmt.Errorf("missing session")
	}
	if w.session(e.Session) == nil {
		return nil, false, fmt.Errorf("invalid session %#v", e.Session)
	}
	old := w.get(e.Key)
	switch {
	case old == nil:
		e.LockIndex = 1
	case old.Session == e.Session:
		e.LockIndex = old.LockIndex
	case old.Session != "":
		return nil, false, nil
	default:
		e.LockIndex = old.LockIndex + 1
	}
	return w.set(e, true), true, nil
}

// unlock writes e and takes the key from e.Session. False: that session does not hold it.
func (w *writeTxn) unlock(e Entry) (*Entry, bool, error) {
	if e.Session == "" {
		return nil, false, fmt.Errorf("missing session")
	}
	old := w.get(e.Key)
	if old == nil || old.Session != e.Session {
		return nil, false, nil
	}
	e.Session = ""
	e.LockIndex = old.LockIndex
	return w.set(e, true), true, nil
}

func (w *writeTxn) delete(key string) {
	old := w.get(key)
	if old == nil {
		return
	}
	w.bury(key)
	w.open(treeKV).Delete(treeKey(key))
	w.state.idx.KV = w.idx
	w.moveHold(old, nil)
}

// deleteCAS deletes the key if its ModifyIndex is want. A key that does not exist counts as
// deleted.
func (w *writeTxn) deleteCAS(key string, want uint64) bool {
	old := w.get(key)
	if old == nil {
		return true
	}
	if old.ModifyIndex != want {
		return false
	}
	w.delete(key)
	return true
}

func (w *writeTxn) deleteTree(prefix string) {
	var gone []*Entry
	walk(w.root(treeKV), prefix, func(e *Entry) { gone = append(gone, e) })
	if len(gone) == 0 {
		return
	}
	for _, e := range gone {
		w.moveHold(e, nil)
	}
	w.open(treeKV).DeletePrefix([]byte(prefix))
	w.state.idx.KV = w.idx
	// One tombstone stands for the whole prefix, and none for the whole store, as in Consul: the
	// index of what lay deeper is then the table's.
	if prefix != "" {
		w.bury(prefix)
	}
}

func (w *writeTxn) bury(key string) {
	w.open(treeTombstones).Insert(treeKey(key), &tombstone{Key: key, Index: w.idx, At: w.now})
	w.state.idx.Tombstones = w.idx
}

// reapTombstones removes the tombstones whose time is over. That takes the index of a prefix back
// whose last change was a delete, although nothing in it has changed.
func (w *writeTxn) reapTombstones() {
	var old [][]byte
	w.root(treeTombstones).Walk(func(k []byte, v any) bool {
		if w.now.Sub(v.(*tombstone).At) > tombstoneTTL {
			old = append(old, k)
		}
		return false
	})
	for _, k := range old {
		w.open(treeTombstones).Delete(k)
	}
}

func walk(n *iradix.Node, prefix string, f func(*Entry)) {
	n.WalkPrefix([]byte(prefix), func(_ []byte, v any) bool {
		f(v.(*Entry))
		return false
	})
}

// getWatch finds a key. The index is the key's own, or the table's when there is no such key.
func (st *state) getWatch(key string, ws *watchSet) (uint64, *Entry) {
	ch, v, ok := st.trees[treeKV].Root().GetWatch(treeKey(key))
	ws.add(ch)
	if !ok {
		return st.kvIndex(), nil
	}
	e := v.(*Entry)
	return e.ModifyIndex, e
}

// list finds all keys under a prefix. The index is the highest ModifyIndex among them and their
// tombstones; the table's for the empty prefix, and when there are neither.
func (st *state) list(prefix string, ws *watchSet) (uint64, []*Entry) {
	it := st.trees[treeKV].Root().Iterator()
	ws.add(it.SeekPrefixWatch([]byte(prefix)))
	var entries []*Entry
	var idx uint64
	for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
		e := v.(*Entry)
		entries = append(entries, e)
		idx = max(idx, e.ModifyIndex)
	}
	if prefix == "" {
		return st.kvIndex(), entries
	}
	st.trees[treeTombstones].Root().WalkPrefix([]byte(prefix), func(_ []byte, v any) bool {
		idx = max(idx, v.(*tombstone).Index)
		return false
	})
	if idx == 0 {
		idx = st.kvIndex()
	}
	return idx, entries
}

// cutAt shortens keys behind the first separator after the prefix and leaves repetitions out.
func cutAt(entries []*Entry, prefix, sep string) []string {
	keys := make([]string, 0, len(entries))
	seen := make(map[string]bool)
	for _, e := range entries {
		key := e.Key
		if i := strings.Index(key[len(prefix):], sep); sep != "" && i >= 0 {
			key = key[:len(prefix)+i+len(sep)]
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		keys = append(keys, key)
	}
	return keys
}
