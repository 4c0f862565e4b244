package devconsul

import (
	"errors"
	"fmt"
	"slices"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix"
)

// Session is a session as Consul stores and shows it.
type Session struct {
	ID        string
	Name      string
	Node      string
	LockDelay time.Duration
	// Behavior is "release" or "delete": what becomes of the keys it holds when it ends.
	Behavior string
	// TTL is a duration as text; empty or zero: it does not expire.
	TTL           string
	NodeChecks    []string
	ServiceChecks []ServiceCheck
	Checks        []string `json:",omitempty"`
	CreateIndex   uint64
	ModifyIndex   uint64
}

// ServiceCheck names a check of a service that a session is bound to.
type ServiceCheck struct {
	ID        string
	Namespace string
}

// maxLockDelay is where Consul caps a session's lock-delay, saying nothing.
const maxLockDelay = 60 * time.Second

// checkIDs are all checks that the session depends on, in the order in which Consul looks at them:
// the first that is missing or critical is the one a refusal names.
func (s *Session) checkIDs() []string {
	ids := slices.Concat(s.Checks, s.NodeChecks)
	for _, c := range s.ServiceChecks {
		ids = append(ids, c.ID)
	}
	return ids
}

func findSession(n *iradix.Node, id string) *Session {
	v, ok := n.Get(treeKey(fold(id)))
	if !ok {
		return nil
	}
	return v.(*Session)
}

func (w *writeTxn) session(id string) *Session { return findSession(w.root(treeSessions), id) }

var errMissingNode = errors.New("Missing node registration")

// createSession stores a session, unless its node is missing or one of its checks is missing or
// critical.
func (w *writeTxn) createSession(sess Session) error {
	sess.CreateIndex, sess.ModifyIndex = w.idx, w.idx
	if _, ok := w.root(treeNodes).Get(treeKey(fold(sess.Node))); !ok {
		return errMissingNode
	}
	for _, id := range sess.checkIDs() {
		v, ok := w.root(treeChecks).Get(treeKey(fold(sess.Node), fold(id)))
		if !ok {
			return fmt.Errorf("Missing check '%s' registration", id)
		}
		if c := v.(*check); c.Status == statusCritical {
			return fmt.Errorf("Check '%s' is in %s state", id, c.Status)
		}
	}
	w.putSession(&sess)
	w.state.idx.Sessions = w.idx
	return nil
}

func (w *writeTxn) putSession(sess *Session) {
	w.open(treeSessions).Insert(treeKey(fold(sess.ID)), sess)
	w.open(treeByNode).Insert(treeKey(fold(sess.Node), fold(sess.ID)), sess)
	for _, id := range sess.checkIDs() {
		w.open(treeByCheck).Insert(treeKey(fold(sess.Node), fold(id), fold(sess.ID)), sess.ID)
	}
}

// endSession removes a session and frees or deletes the keys it holds. Lock-delay applies to them,
// whatever ended the session: expiry, a check, its node's going, or a client's own destroy.
func (w *writeTxn) endSession(id string) {
	sess := w.session(id)
	if sess == nil {
		return
	}
	w.open(treeSessions).Delete(treeKey(fold(sess.ID)))
	w.open(treeByNode).Delete(treeKey(fold(sess.Node), fold(sess.ID)))
	for _, c := range sess.checkIDs() {
		w.open(treeByCheck).Delete(treeKey(fold(sess.Node), fold(c), fold(sess.ID)))
	}
	w.state.idx.Sessions = w.idx
	w.endedSessions = append(w.endedSessions, sess.ID)

	var keys []string
	w.root(treeHeld).WalkPrefix(treeKey(fold(sess.ID)), func(_ []byte, v any) bool {
		keys = append(keys, v.(string))
		return false
	})
	for _, key := range keys {
		verb := "session-release"
		if sess.Behavior == behaviorDelete {
			verb = "session-delete"
			w.delete(key)
		} else {
			e := *w.get(key)
			e.Session = ""
			w.set(e, true)
		}
		if d := min(sess.LockDelay, maxLockDelay); d > 0 {
			w.lockDelays[key] = w.now.Add(d)
		}
		w.log(CommitOp{Verb: verb, Key: key, Session: sess.ID}, true, nil)
	}
}

// endSessionsOfCheck ends the sessions that depend on a check of a node.
func (w *writeTxn) endSessionsOfCheck(node, checkID string) {
	w.endSessionsUnder(treeByCheck, treeKey(fold(node), fold(checkID)))
}

func (w *writeTxn) endSessionsOfNode(node string) {
	w.endSessionsUnder(treeByNode, treeKey(fold(node)))
}

func (w *writeTxn) endSessionsUnder(t tree, prefix []byte) {
	var ids []string
	w.root(t).WalkPrefix(prefix, func(_ []byte, v any) bool {
		switch v := v.(type) {
		case string:
			ids = append(ids, v)
		case *Session:
			ids = append(ids, v.ID)
		}
		return false
	})
	for _, id := range ids {
		w.log(CommitOp{Verb: "session-destroy", Session: id}, true, nil)
		w.endSession(id)
	}
}

func sessionsUnder(t *iradix.Tree, prefix []byte, ws *watchSet) []*Session {
	it := t.Root().Iterator()
	ws.add(it.SeekPrefixWatch(prefix))
	found := []*Session{}
	for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
		found = append(found, v.(*Session))
	}
	return found
}
