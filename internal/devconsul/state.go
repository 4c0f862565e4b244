package devconsul

import (
	"strings"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix"
)

// state is all replicated data at one index. It is never changed once published: a write makes a
// new one that shares what did not change.
//
// The trees are radix trees of the library that Consul uses, with keys built the same way (a key
// ends in a zero byte, a prefix does not), because what wakes a watch depends on the shape of the
// tree.
type state struct {
	trees [trees]*iradix.Tree

	idx tableIndexes

	applied uint64 // the newest log entry, whether or not it changed anything

	// abandoned is closed when a restore or a reset replaces everything; it ends blocking queries.
	abandoned chan struct{}
}

// tableIndexes holds for each table the index of its last change: what a query answers with when it
// has found nothing.
type tableIndexes struct {
	KV, Tombstones, Sessions, Nodes, Services, Checks uint64
	// LastExtinction is the index at which the last instance of some service went away.
	LastExtinction uint64
}

func newState() *state {
	st := &state{abandoned: make(chan struct{})}
	for t := range st.trees {
		st.trees[t] = iradix.New()
	}
	return st
}

func (st *state) kvIndex() uint64 { return max(st.idx.KV, st.idx.Tombstones) }

// tree names a tree of the state; writeTxn opens only those that an entry touches.
type tree int

const (
	treeKV         tree = iota // key -> *Entry
	treeTombstones             // key or deleted prefix -> *tombstone
	treeHeld                   // session, key -> key
	treeSessions               // id -> *Session
	treeByNode                 // node, session -> *Session
	treeByCheck                // node, check, session -> session id
	treeNodes                  // node -> *node
	treeServices               // node, service id -> *service
	treeChecks                 // node, check id -> *check
	treeSvcIndex               // service name -> uint64, the index of its last change
	trees
)

// writeTxn applies one log entry to a copy of the state.
type writeTxn struct {
	state
	idx  uint64
	now  time.Time
	txns [trees]*iradix.Txn

	// refused says that the entry did nothing although it is not an error, as a cas that lost.
	refused       bool
	ops           []CommitOp
	endedSessions []string
	// lockDelays is the leader's own table, outside of the log: Consul keeps it so, because each
	// server's clock is its own.
	lockDelays map[string]time.Time
}

func (w *writeTxn) open(t tree) *iradix.Txn {
	if w.txns[t] == nil {
		w.txns[t] = w.trees[t].Txn()
		w.txns[t].TrackMutate(true)
	}
	return w.txns[t]
}

// root is the tree as this entry has changed it so far.
func (w *writeTxn) root(t tree) *iradix.Node {
	if w.txns[t] != nil {
		return w.txns[t].Root()
	}
	return w.trees[t].Root()
}

// commit returns the new state and the transactions whose watchers have to be told.
func (w *writeTxn) commit() (*state, []*iradix.Txn) {
	next := w.state
	var notify []*iradix.Txn
	for t, txn := range w.txns {
		if txn != nil {
			next.trees[t] = txn.CommitOnly()
			notify = append(notify, txn)
		}
	}
	return &next, notify
}

func (w *writeTxn) log(op CommitOp, ok bool, err error) {
	op.OK = ok && err == nil
	if err != nil {
		op.What = err.Error()
	}
	w.ops = append(w.ops, op)
}

// treeKey builds the key of a tree from its parts, each ended by a zero byte so that none is a
// prefix of another.
func treeKey(parts ...string) []byte {
	n := len(parts)
	for _, p := range parts {
		n += len(p)
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = append(append(b, p...), 0)
	}
	return b
}

// fold is how Consul compares names of nodes, checks, services and ids of sessions.
func fold(s string) string { return strings.ToLower(s) }
