package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sequence is a sequence key as one read shows it. A sequence key makes each transaction that moves
// it take effect at most once: the transaction replaces the key, by cas at the index of the read,
// with a value that was never there. So its own success makes its condition false. Consul refuses a
// second copy of the request, which a proxy or a dying connection delivers at any later moment. It
// also refuses what is still on its way when a later transaction has moved the key.
//
// The value holds the names of the last transactions that moved the key. A writer whose answer was
// lost reads the key again and finds its name, or not: see [Sequence.Outcome]. Several writers may
// share a key; they try again when they meet ([Once]). A writer that shares its key with nobody, and
// stops at the first lost answer, needs no names ([Advance]).
//
// Sequence keys lie below a prefix that nobody watches. They are never deleted: a cas with index 0
// would hold again.
type Sequence struct {
	Key   string
	index uint64
	names []string
}

// A name has 8 characters of five bits each. A key keeps the last 128 names.
const (
	nameLength = 8
	namesKept  = 128
	nameLetter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// SequenceBytes is how many bytes a sequence key takes at most in a transaction, without its name.
const SequenceBytes = 100 + namesKept*(nameLength+1)*4/3

// NewName returns a name for one transaction: random, so that no two have the same.
func NewName() string { return rand.Text()[:nameLength] }

// SequenceIn returns the sequence key as an entry of a read shows it. The entry of a missing key
// has index 0 and no value: see [GetOrEmpty].
func SequenceIn(key string, e Entry) Sequence {
	names := slices.DeleteFunc(strings.Fields(string(e.Value)), func(s string) bool {
		return len(s) != nameLength || strings.Trim(s, nameLetter) != ""
	})
	return Sequence{Key: key, index: e.ModifyIndex, names: names[max(0, len(names)-namesKept):]}
}

// ReadSequence reads a sequence key consistently.
func ReadSequence(ctx context.Context, s Store, key string) (Sequence, error) {
	e, _, _, err := s.Get(ctx, key, Consistent)
	if err != nil {
		return Sequence{}, err
	}
	return SequenceIn(key, e), nil
}

// Move is the operation that moves the key, under the name of its transaction. It holds while
// nothing has moved the key since the read.
func (q Sequence) Move(name string) Op {
	return CAS(q.Key, []byte(strings.Join(q.with(name), " ")), 0, q.index)
}

// Moved returns the key as it is after a transaction with Move(name) was applied; index is the
// ModifyIndex that its result has for the key.
func (q Sequence) Moved(name string, index uint64) Sequence {
	return Sequence{Key: q.Key, index: index, names: q.with(name)}
}

func (q Sequence) with(name string) []string {
	names := append(slices.Clone(q.names), name)
	return names[max(0, len(names)-namesKept):]
}

// SequenceAfter stands for a read that showed this name as the last one: for [Sequence.Outcome].
func SequenceAfter(name string) Sequence {
	if name == "" {
		return Sequence{}
	}
	return Sequence{names: []string{name}}
}

// Index is the ModifyIndex of the key: 0 if it does not exist. It is the index of the last
// transaction that moved the key.
func (q Sequence) Index() uint64 { return q.index }

// Last is the name of the last transaction, empty if none is known.
func (q Sequence) Last() string {
	if len(q.names) == 0 {
		return ""
	}
	return q.names[len(q.names)-1]
}

// Has tells whether the transaction of this name was applied, as far as the names go back.
func (q Sequence) Has(name string) bool { return slices.Contains(q.names, name) }

// Outcome tells from a later read what became of a transaction that was sent with Move(name) of
// the read before, and whose answer was lost or was a refusal. Applied: its name is there. Not
// known: others have moved the key so often since that the names do not go back to the read before.
// Known and not applied: it has not been applied so far, and cannot be any more if the key has moved
// since, because of its index. A key whose index went back is that of a Consul which was restored to
// a moment before the transaction.
func (q Sequence) Outcome(before Sequence, name string) (applied, known bool) {
	switch {
	case q.Has(name):
		return true, true
	case q.index < before.index:
		return false, true
	case len(before.names) == 0:
		return false, len(q.names) < namesKept
	}
	return false, q.Has(before.Last())
}

// Once writes under one sequence key that several writers may share, each transaction at most once.
type Once struct {
	store Store
	key   string
	turn  chan struct{} // cap 1: full while a call of this process is under way
}

// NewOnce returns the writer under a sequence key. Its calls wait for each other.
func NewOnce(s Store, key string) *Once {
	return &Once{store: s, key: key, turn: make(chan struct{}, 1)}
}

// Txn applies ops in one transaction that moves the key as well, at most once. It is one try, but
// for the meeting with another writer of the key: then it is sent again. A nil error says that the
// transaction was applied; the Result is empty if the names told that and not the answer. A
// [RefusedError] is about ops, by their index; a copy of what was refused may be applied until the
// next transaction under the key. A try of unknown outcome ([OutcomeUnknown]) is not repeated.
func (o *Once) Txn(ctx context.Context, ops ...Op) (Result, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return Result{}, ended("txn", &callError{kind: ErrNotSent, op: "txn",
			text: "other calls are before it"}, ctx.Err())
	}
	name := NewName()
	// At once before each try, so that few others can come between the two.
	before, err := ReadSequence(ctx, o.store, o.key)
	for ladder := NewLadder(); err == nil; {
		var res Result
		res, err = o.store.Txn(ctx, append(ops[:len(ops):len(ops)], before.Move(name))...)
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok {
			return res, err
		}
		var now Sequence
		if now, err = ReadSequence(ctx, o.store, o.key); err != nil {
			break
		}
		switch applied, known := now.Outcome(before, name); {
		case applied:
			return Result{}, nil
		case !known:
			return Result{}, unreachable("txn", "whether it was applied is not known: Consul refused "+
				"it, and many others have come since")
		case refused.Op >= 0 && refused.Op < len(ops):
			return Result{}, fmt.Errorf("txn: %w", refused)
		}
		if !Pause(ctx, ladder.NextBackOff()) {
			return Result{}, ended("txn", &callError{kind: ErrRefused, op: "txn " + o.key,
				text: "others write all the time"}, ctx.Err())
		}
		before = now
	}
	return Result{}, err
}

// Advance moves the sequence key of one writer from index, 0 if it does not exist, to the next one.
// The value is the index, which is larger than any that the key held before: Consul does not raise
// the index for an identical value.
func Advance(key string, index uint64) Op {
	return CAS(key, strconv.AppendUint(nil, index, 10), 0, index)
}

// longest is the largest form of Advance, for measuring.
func longest(key string) Op { return Advance(key, math.MaxUint64) }
