package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

// Limits of one transaction, and of one value. The documents say 64
// operations; it is 128 since Consul 1.14. The body's limit counts values in
// base64.
const (
	MaxOps        = 128
	MaxBodyBytes  = 512 * 1024
	MaxValueBytes = 512 * 1024
)

// Op is one operation of a transaction. A transaction applies all of its
// operations, in order, or none.
type Op struct{ kv api.KVTxnOp }

// Key returns the key, or prefix, that the operation is about.
func (o Op) Key() string { return o.kv.Key }

// Value returns what the operation writes. It is not to be changed.
func (o Op) Value() []byte { return o.kv.Value }

// Verb returns Consul's name of the operation.
func (o Op) Verb() string { return string(o.kv.Verb) }

func (o Op) String() string { return o.Verb() + " " + o.kv.Key }

// CheckIndex holds while key exists with this ModifyIndex.
func CheckIndex(key string, index uint64) Op {
	return Op{api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: index}}
}

// CheckNotExists holds while key does not exist.
func CheckNotExists(key string) Op {
	return Op{api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key}}
}

// CheckSession holds while key exists and is locked by session.
func CheckSession(key, session string) Op {
	return Op{api.KVTxnOp{Verb: api.KVCheckSession, Key: key, Session: session}}
}

// Lock acquires key for session and writes it; it holds when the key is free
// (and not in lock-delay) or already this session's. The ModifyIndex in its
// result is the epoch. Locking again bumps it only if value or flags differ.
// A dead session makes the transaction [ErrSessionGone].
func Lock(key string, value []byte, flags uint64, session string) Op {
	return Op{api.KVTxnOp{Verb: api.KVLock, Key: key, Value: value, Flags: flags, Session: session}}
}

// Create writes key; it holds when the key does not exist.
func Create(key string, value []byte) Op { return CAS(key, value, 0, 0) }

// CAS writes key; it holds when the key has this ModifyIndex. Index 0 means
// that it must not exist.
func CAS(key string, value []byte, flags, index uint64) Op {
	return Op{api.KVTxnOp{Verb: api.KVCAS, Key: key, Value: value, Flags: flags, Index: index}}
}

// DeleteCAS deletes key; it holds when the key has this ModifyIndex, and also
// when it does not exist: Consul takes the wish for granted.
func DeleteCAS(key string, index uint64) Op {
	return Op{api.KVTxnOp{Verb: api.KVDeleteCAS, Key: key, Index: index}}
}

// Set writes key, whatever it holds.
func Set(key string, value []byte, flags uint64) Op {
	return Op{api.KVTxnOp{Verb: api.KVSet, Key: key, Value: value, Flags: flags}}
}

// Delete deletes key, if it exists.
func Delete(key string) Op { return Op{api.KVTxnOp{Verb: api.KVDelete, Key: key}} }

// DeleteTree deletes all keys under prefix, which must end in "/".
func DeleteTree(prefix string) Op { return Op{api.KVTxnOp{Verb: api.KVDeleteTree, Key: prefix}} }

// Get reads key; it holds when the key exists.
func Get(key string) Op { return Op{api.KVTxnOp{Verb: api.KVGet, Key: key}} }

// GetOrEmpty reads key; a missing key gives an [Entry] with CreateIndex 0.
func GetOrEmpty(key string) Op { return Op{api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key}} }

// sameCondition tells whether two operations ask the same kind of thing of the same key.
func (o Op) sameCondition(p Op) bool { return o.kv.Verb == p.kv.Verb && o.kv.Key == p.kv.Key }

func (o Op) reads() bool { return o.kv.Verb == api.KVGet || o.kv.Verb == api.KVGetOrEmpty }

func (o Op) writes() bool {
	switch o.kv.Verb {
	case api.KVSet, api.KVCAS, api.KVLock:
		return true
	}
	return o.Deletes()
}

// Deletes reports whether the operation deletes keys.
func (o Op) Deletes() bool {
	return o.kv.Verb == api.KVDelete || o.kv.Verb == api.KVDeleteCAS ||
		o.kv.Verb == api.KVDeleteTree
}

// answers reports whether a transaction that succeeds has a result for o.
func (o Op) answers() bool { return !o.Deletes() && o.kv.Verb != api.KVCheckNotExists }

func (o Op) check() error {
	if o.kv.Verb != api.KVDeleteTree && len(o.kv.Value) <= MaxValueBytes && ordinary(o.kv.Key) &&
		(o.kv.Verb != api.KVLock || o.kv.Session != "") && o.kv.Verb != "" {
		return nil
	}
	name := o.String()
	switch {
	case o.kv.Verb == "":
		return Invalid("txn", "an operation is the zero Op; build it with one of the functions")
	case o.kv.Verb == api.KVLock && o.kv.Session == "":
		return Invalid(name, "the session is empty; open one first")
	case len(o.kv.Value) > MaxValueBytes:
		return Invalid(name, "the value has %d bytes; Consul takes %d", len(o.kv.Value),
			MaxValueBytes)
	case o.kv.Verb == api.KVDeleteTree:
		return checkPrefix(name, o.kv.Key)
	}
	return CheckKey(name, o.kv.Key)
}

// ordinary reports whether key cannot be anything that CheckKey refuses: letters,
// digits, '-', '_' and single dots and slashes, as nearly all keys are. It
// spares 100,000 keys the full look.
func ordinary(key string) bool {
	last := byte('/')
	for i := range len(key) {
		c := key[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		case (c == '/' || c == '.') && last != '/' && last != '.':
		default:
			return false
		}
		last = c
	}
	return last != '.' && key != ""
}

// most is the most bytes that an operation takes in a body. Numbers count as their longest.
func (o Op) most() int {
	n := len(`{"KV":{"Verb":"","Key":"","Value":"","Session":""}},`) + len(o.kv.Verb) +
		len(o.kv.Session) + base64.StdEncoding.EncodedLen(len(o.kv.Value))
	if o.kv.Flags != 0 || o.kv.Index != 0 {
		n += len(`,"Flags":18446744073709551615,"Index":18446744073709551615`)
	}
	for i := range len(o.kv.Key) {
		switch c := o.kv.Key[i]; {
		case c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			n += len(`\u0000`)
		default:
			n++
		}
	}
	return n
}

// sizeOf is the most bytes that a body of ops takes.
func sizeOf(ops []Op) int {
	n := len("[]\n")
	for _, op := range ops {
		n += op.most()
	}
	return n
}

// wireOp is an operation in a body, without what is empty, which the client's own type writes out:
// 40 bytes less for each.
type wireOp struct {
	Verb    api.KVOp
	Key     string
	Value   []byte `json:",omitempty"`
	Flags   uint64 `json:",omitempty"`
	Index   uint64 `json:",omitempty"`
	Session string `json:",omitempty"`
}

// txnReply is the body of 200 and of 409. Consul always sends both fields; a
// body without them is someone else's.
type txnReply struct {
	Results *[]txnResult // nil: the body has none
	Errors  []api.TxnError
}

type txnResult struct{ KV *api.KVPair }

// Result is the answer to a transaction that was applied.
type Result struct {
	// Index is the largest ModifyIndex of what was written: the log entry of the
	// transaction. 0 when it only read, checked or deleted, because Consul
	// answers nothing about those; and older than the transaction when all it
	// wrote was there already, because then nothing changed.
	Index uint64
	// Entries are the answers in the order of the operations. Deletes and
	// CheckNotExists have none; only reads have a value.
	Entries []Entry
}

// Entry returns the last answer about key.
func (r Result) Entry(key string) (Entry, bool) {
	for _, e := range slices.Backward(r.Entries) {
		if e.Key == key {
			return e, true
		}
	}
	return Entry{}, false
}

// Txn applies ops in one transaction, in one try. More than [MaxOps]
// operations or a body of more than [MaxBodyBytes] is [ErrInvalid] before
// anything is sent. Operations without a write among them go the read path, with consistent reads:
// a moment of many keys.
func (s *consul) Txn(ctx context.Context, ops ...Op) (Result, error) {
	what := "read txn"
	if slices.ContainsFunc(ops, Op.writes) {
		what = "txn"
	}
	if len(ops) == 0 {
		return Result{}, Invalid(what, "there is no operation in it")
	}
	if len(ops) > MaxOps {
		return Result{}, Invalid(what, "it has %d operations; Consul takes %d", len(ops), MaxOps)
	}
	for _, op := range ops {
		if err := op.check(); err != nil {
			return Result{}, err
		}
	}
	if size := sizeOf(ops); size > MaxBodyBytes {
		return Result{}, Invalid(what,
			"the body has %d bytes with values in base64; Consul takes %d", size, MaxBodyBytes)
	}
	if !slices.ContainsFunc(ops, func(o Op) bool { return o.writes() || o.answers() }) {
		// Nothing but CheckNotExists: a true answer would be as empty as a foreign
		// one. A read beside them makes it show whose it is.
		_, err := s.send(ctx, what, append(slices.Clone(ops), GetOrEmpty(ops[0].Key())))
		return Result{}, err
	}
	return s.send(ctx, what, ops)
}

// send sends checked operations.
func (s *consul) send(ctx context.Context, what string, ops []Op) (res Result, err error) {
	c := call{op: what, timeout: s.callTimeout + atThinnest(sizeOf(ops)), need: needOf(ops)}
	if c.key = ops[0].Key(); len(ops) > 1 {
		c.key += fmt.Sprintf(" (and %d more)", len(ops)-1)
	}
	err = s.do(ctx, c, func(ctx context.Context) error {
		reply, err := s.exchange(ctx, c, ops)
		if err == nil {
			res, err = reply.result(c, ops)
		}
		return err
	})
	return res, err
}

// needOf names the permission a transaction takes, for the message of a 403.
func needOf(ops []Op) string {
	key, verb := ops[0].Key(), "key:read"
	for _, op := range ops {
		if op.writes() {
			key, verb = op.Key(), "key:write"
			break
		}
	}
	return fmt.Sprintf("%s on %q", verb, key)
}

// exchange sends a transaction. Writes go by the raw endpoint, because the
// client's own call reports a failure without its status, and drops whether the
// body was a transaction's at all. Reads have to go by the client's call: only
// it can ask for consistency.
func (s *consul) exchange(ctx context.Context, c call, ops []Op) (txnReply, error) {
	var reply txnReply
	if slices.ContainsFunc(ops, Op.writes) {
		body := make([]struct{ KV wireOp }, len(ops))
		for i, o := range ops {
			body[i].KV = wireOp{o.kv.Verb, o.kv.Key, o.kv.Value, o.kv.Flags, o.kv.Index,
				o.kv.Session}
		}
		_, err := s.client.Raw().Write("/v1/txn", body, &reply,
			(&api.WriteOptions{}).WithContext(ctx))
		status, ok := errors.AsType[api.StatusError](err)
		if !ok || status.Code != http.StatusConflict {
			return reply, err
		}
		if err := json.Unmarshal([]byte(status.Body), &reply); err != nil ||
			len(reply.Errors) == 0 {
			return reply, unreachable(c.String(), "409 with a body that is not a transaction's: %s",
				ShortenPart(status.Body))
		}
		return reply, nil
	}
	txn := make(api.TxnOps, len(ops))
	for i := range ops {
		txn[i] = &api.TxnOp{KV: &ops[i].kv}
	}
	ok, got, _, err := s.client.Txn().Txn(txn, Consistent.options().WithContext(ctx))
	if err != nil {
		return reply, err
	}
	for _, e := range got.Errors {
		if e == nil {
			return reply, unreachable(c.String(), "the answer is not a transaction's")
		}
		reply.Errors = append(reply.Errors, *e)
	}
	if !ok && len(reply.Errors) == 0 {
		return reply, unreachable(c.String(), "409 with a body that is not a transaction's")
	}
	if ok && got.Results == nil {
		return reply, unreachable(c.String(),
			"the answer is not a transaction's, or access rules left out all of it: see that the "+
				"token has %s",
			c.need)
	}
	results := make([]txnResult, len(got.Results))
	for i, r := range got.Results {
		if r != nil {
			results[i].KV = r.KV
		}
	}
	reply.Results = &results
	return reply, nil
}

// result checks that the reply answers ops, one by one.
func (r txnReply) result(c call, ops []Op) (Result, error) {
	if len(r.Errors) > 0 {
		return Result{}, r.refusal(c, ops)
	}
	if r.Results == nil {
		return Result{}, unreachable(c.String(), "the answer is not a transaction's")
	}
	left := *r.Results
	res := Result{Entries: make([]Entry, 0, len(left))}
	for _, op := range ops {
		if !op.answers() {
			continue
		}
		if len(left) == 0 || left[0].KV == nil || left[0].KV.Key != op.Key() {
			if op.reads() {
				// Access rules leave unreadable keys out of the answer, silently.
				return Result{}, &callError{kind: ErrDenied, op: c.String(),
					text: fmt.Sprintf("the answer leaves out %q; the token needs key:read on it",
						op.Key())}
			}
			return Result{}, unreachable(c.String(),
				"the answer does not match the operations at %v", op)
		}
		e := entryOf(left[0].KV)
		left = left[1:]
		if op.writes() {
			res.Index = max(res.Index, e.ModifyIndex)
		}
		res.Entries = append(res.Entries, e)
	}
	if len(left) > 0 {
		return Result{}, unreachable(c.String(), "the answer holds more than was asked for")
	}
	return res, nil
}

// refusal turns the errors of a 409 into one error: that of the first
// operation that failed. Permissions and lock-delays are looked at before
// anything is applied, and come the same way.
func (r txnReply) refusal(c call, ops []Op) error {
	all := make([]*RefusedError, len(r.Errors))
	for i, e := range r.Errors {
		all[i] = &RefusedError{Op: -1, What: e.What}
		if e.OpIndex >= 0 && e.OpIndex < len(ops) {
			all[i].Op, all[i].Key = e.OpIndex, ops[e.OpIndex].Key()
		}
	}
	slices.SortStableFunc(all, func(a, b *RefusedError) int { return a.Op - b.Op })
	first := all[0]
	switch {
	case strings.HasPrefix(first.What, notKnown):
		return c.unknownToken(first.What)
	case strings.HasPrefix(first.What, "Permission denied"):
		need := c.need
		if first.Op >= 0 {
			need = needOf(ops[first.Op : first.Op+1])
		}
		return &callError{kind: ErrDenied, op: c.String(),
			text: fmt.Sprintf("%s; the token needs %s", first.What, need)}
	case strings.HasPrefix(first.What, "invalid session"):
		return &callError{kind: ErrSessionGone, op: c.String(), text: first.What +
			"; open a new session"}
	}
	first.others = all[1:]
	return first
}
