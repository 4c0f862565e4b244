package devconsul

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"
)

// maxTxnOps is the most operations that one transaction may have.
const maxTxnOps = 128

// kvOp is one operation on the KV store, alone or in a transaction.
type kvOp struct {
	verb  string
	e     Entry
	index uint64 // what cas, delete-cas and check-index compare with
}

func (op kvOp) isWrite() bool {
	switch op.verb {
	case "set", "cas", "lock", "unlock", "delete", "delete-cas", "delete-tree":
		return true
	}
	return false
}

// do applies one operation and logs it. The entries are what a transaction answers with. ok is
// false when a condition did not hold; err says why when it is more than that.
func (w *writeTxn) do(op kvOp) (found []*Entry, ok bool, err error) {
	defer func() {
		w.log(CommitOp{
			Verb: op.verb, Key: op.e.Key, Value: op.e.Value, Flags: op.e.Flags,
			Session: op.e.Session, Index: op.index,
		}, ok, err)
	}()
	var e *Entry
	ok = true
	switch key := op.e.Key; op.verb {
	case "set":
		e = w.set(op.e, false)
	case "cas":
		e, ok = w.setCAS(op.e, op.index)
	case "lock":
		e, ok, err = w.lock(op.e)
	case "unlock":
		e, ok, err = w.unlock(op.e)
	case "delete":
		w.delete(key)
	case "delete-cas":
		ok = w.deleteCAS(key, op.index)
	case "delete-tree":
		w.deleteTree(key)
	case "get":
		if e = w.get(key); e == nil {
			ok, err = false, fmt.Errorf("key %q doesn't exist", key)
		}
	case "get-or-empty":
		if e = w.get(key); e == nil {
			e = &Entry{Key: key, Flags: op.e.Flags, Session: op.e.Session, ModifyIndex: op.index}
		}
	case "get-tree":
		walk(w.root(treeKV), key, func(e *Entry) { found = append(found, e) })
		return found, true, nil
	case "check-index":
		switch e = w.get(key); {
		case e == nil:
			ok, err = false, fmt.Errorf("failed to check index, key %q doesn't exist", key)
		case e.ModifyIndex != op.index:
			ok, err = false,
				fmt.Errorf("failed index check for key %q, current modify index %d != %d", key,
					e.ModifyIndex, op.index)
		}
	case "check-session":
		switch e = w.get(key); {
		case e == nil:
			ok, err = false, fmt.Errorf("failed to check session, key %q doesn't exist", key)
		case e.Session != op.e.Session:
			ok, err = false, fmt.Errorf("failed session check for key %q, current session %q != %q",
				key, e.Session, op.e.Session)
		}
	case "check-not-exists":
		if w.get(key) != nil {
			ok, err = false, fmt.Errorf("key %q exists", key)
		}
	}
	if e == nil {
		return nil, ok, err
	}
	return []*Entry{e}, ok, err
}

// refusal is what a transaction says about an operation whose condition did not hold.
func (op kvOp) refusal() error {
	switch op.verb {
	case "delete-cas":
		return fmt.Errorf("failed to delete key %q, index is stale", op.e.Key)
	case "lock":
		return fmt.Errorf("failed to lock key %q, lock is already held", op.e.Key)
	case "unlock":
		return fmt.Errorf("failed to unlock key %q, lock isn't held, or is held by another session",
			op.e.Key)
	default:
		return fmt.Errorf("failed to set key %q, index is stale", op.e.Key)
	}
}

type txnResult struct{ KV *Entry }

type txnError struct {
	OpIndex int
	What    string
}

type txnResponse struct {
	Results []txnResult
	Errors  []txnError
}

// txnReadResponse carries the headers of a read in its body as well, as Consul's does.
type txnReadResponse struct {
	txnResponse
	Index                 uint64
	LastContact           time.Duration
	KnownLeader           bool
	ConsistencyLevel      string
	NotModified           bool
	Backend               int
	ResultsFilteredByACLs bool
}

func (s *Server) txn(w http.ResponseWriter, r *http.Request) (any, error) {
	ops, err := txnOps(w, r)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(ops, kvOp.isWrite) {
		// A write reads no other parameter.
		if err := s.checkDatacenter(r.URL.Query()); err != nil {
			return nil, err
		}
		reply, err := s.txnWrite(ops)
		if err != nil {
			return nil, err
		}
		return txnAnswer(w, r, reply, len(reply.Errors) > 0)
	}
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	reply, err := s.txnRead(r, q, ops)
	if err != nil {
		return nil, err
	}
	q.writeContact(w.Header())
	return txnAnswer(w, r, reply, len(reply.Errors) > 0)
}

func txnAnswer(w http.ResponseWriter, r *http.Request, reply any, conflict bool) (any, error) {
	if conflict {
		writeJSON(w, r, http.StatusConflict, "application/json; charset=utf-8", reply)
		return nil, nil
	}
	return reply, nil
}

func (s *Server) txnWrite(ops []kvOp) (*txnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, ErrClosed
	}
	if !s.leadership.Load().applies() {
		return nil, errNoLeader
	}
	reply := &txnResponse{Errors: s.txnPreCheck(ops, time.Now())}
	if len(reply.Errors) > 0 {
		return reply, nil
	}
	err := s.applyLocked(func(w *writeTxn) error {
		reply.Results, reply.Errors = w.dispatch(ops)
		if len(reply.Errors) > 0 {
			return errTxnRefused
		}
		return nil
	})
	if err != nil && !errors.Is(err, errTxnRefused) {
		return nil, err
	}
	return reply, nil
}

// errTxnRefused keeps the changes of a transaction with a failed operation from being published.
var errTxnRefused = errors.New("devconsul: transaction refused")

func (s *Server) txnRead(r *http.Request, q *query, ops []kvOp) (*txnReadResponse, error) {
	// A read transaction does not block, whatever index it names.
	q.minIndex = 0
	reply := &txnReadResponse{}
	if q.datacenter != nil {
		return nil, q.datacenter
	}
	if s.leadership.Load().isLost() && !q.stale {
		return nil, errNoLeader
	}
	if reply.Errors = s.txnPreCheck(ops, time.Time{}); len(reply.Errors) > 0 {
		return reply, nil
	}
	err := s.read(r.Context(), q, func(st *state, _ *watchSet) (uint64, bool) {
		w := &writeTxn{state: *st}
		reply.Results, reply.Errors = w.dispatch(ops)
		return 0, true
	})
	reply.Index, reply.KnownLeader, reply.LastContact = q.index, q.knownLeader, q.lastContact
	return reply, err
}

func (s *Server) txnPreCheck(ops []kvOp, now time.Time) (errs []txnError) {
	for i, op := range ops {
		if err := op.preCheck(s, now); err != nil {
			errs = append(errs, txnError{i, err.Error()})
		}
	}
	return errs
}

func (op kvOp) preCheck(s *Server, now time.Time) error {
	switch {
	case op.e.Key == "" && op.verb != "delete-tree":
		return errors.New("Must provide key")
	case !knownVerb(op.verb):
		return fmt.Errorf("unknown KV operation: %s", op.verb)
	case op.verb == "lock" && s.delayed(op.e.Key, now):
		return fmt.Errorf("failed to lock key %q due to lock delay", op.e.Key)
	}
	return nil
}

func knownVerb(v string) bool {
	switch v {
	case "get", "get-or-empty", "get-tree", "check-index", "check-session", "check-not-exists":
		return true
	}
	return kvOp{verb: v}.isWrite()
}

// dispatch runs all operations, also those after one that failed: each failure is reported.
func (w *writeTxn) dispatch(ops []kvOp) ([]txnResult, []txnError) {
	results := []txnResult{}
	var errs []txnError
	for i, op := range ops {
		found, err := op.run(w)
		if err != nil {
			errs = append(errs, txnError{i, err.Error()})
		}
		results = append(results, found...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return results, nil
}

func (op kvOp) run(w *writeTxn) (results []txnResult, err error) {
	found, ok, err := w.do(op)
	if !ok && err == nil {
		err = op.refusal()
	}
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		switch op.verb {
		case "get", "get-or-empty", "get-tree":
		default:
			// Only what was asked to be read comes with its value.
			c := *e
			c.Value = nil
			e = &c
		}
		results = append(results, txnResult{KV: e})
	}
	return results, nil
}

func txnOps(w http.ResponseWriter, r *http.Request) ([]kvOp, error) {
	limit := int64(maxValueSize)
	if r.ContentLength > limit {
		return nil, errLength(r.ContentLength, "txn_max_req_len")
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	var in api.TxnOps
	if err := d.Decode(&in); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge("Request body too large, max size: %d bytes. See %s.", limit,
				maxDoc+"txn_max_req_len")
		}
		return nil, badRequest("Failed to parse body: %v", err)
	}
	if len(in) > maxTxnOps {
		return nil, tooLarge("Transaction contains too many operations (%d > %d)", len(in),
			maxTxnOps)
	}
	var ops []kvOp
	for _, op := range in {
		switch {
		case op == nil:
		case op.KV != nil:
			if n := len(op.KV.Value); n > maxValueSize {
				return nil, tooLarge("Value for key %q is too large (%d > %d bytes)", op.KV.Key, n,
					maxValueSize)
			}
			ops = append(ops, kvOp{
				verb: string(op.KV.Verb),
				e: Entry{Key: op.KV.Key, Value: orNil(op.KV.Value), Flags: op.KV.Flags,
					Session: op.KV.Session},
				index: op.KV.Index,
			})
		case op.Node != nil || op.Service != nil || op.Check != nil:
			return nil, badRequest("this embedded server has transactions of keys only; ask a " +
				"real Consul")
		}
	}
	return ops, nil
}
