package member

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// OwnAck is this member's acks key, which three of its actors write. It numbers the acks, so that
// no two writes of the key are equal: Consul does not wake a watch for a value that stays the same.
// And it holds the key's index as far as it is known, by which each write is conditioned.
type OwnAck struct {
	*actor.Base
	n, index atomic.Uint64
	failing  atomic.Bool // the summary names work that has failed too often
	lockless atomic.Bool // what was last written names no lock
}

func NewOwnAck(b *actor.Base) *OwnAck { return &OwnAck{Base: b} }

// unknownIndex: the key has to be read first.
const unknownIndex = math.MaxUint64

func (a *OwnAck) next() uint64 { return a.n.Add(1) }

// seen makes the numbers go on above one that was read.
func (a *OwnAck) seen(n uint64) {
	for {
		have := a.n.Load()
		if n <= have || a.n.CompareAndSwap(have, n) {
			return
		}
	}
}

// value is what this member writes to the key. While it is not clear, inherited is the longest TTL
// that a predecessor may still count on: should this one die before it is clear, that is what must
// be waited for.
func (a *OwnAck) value(session string, clear bool, inherited time.Duration) protocol.Ack {
	ttl := a.Lease
	if !clear {
		ttl = max(ttl, inherited)
	}
	by := a.Process
	by.Lock = a.Lock()
	a.lockless.Store(by.Lock == "")
	return protocol.Ack{Counter: a.next(), Session: session, By: by, Clear: clear, TTL: ttl,
		Failing: a.failing.Load(), Terms: true}
}

// raise applies ops and writes the ack in one transaction, under the condition that the record
// is still session's and that nobody has written the ack since it was known: so neither a second
// copy of the request nor one that arrives late takes a newer ack back. Where it was written, or an
// earlier outcome is unknown, it is read and value is asked again: value is always asked after the
// index was taken, so what the ack of that index said is known by then. A refusal counts the
// operations as they are sent: 0 is the record, those in ops follow.
func (a *OwnAck) raise(ctx context.Context, session string, value func() protocol.Ack,
	ops ...store.Op) error {
	key := a.Keys.Ack(a.ID)
	send := append([]store.Op{store.CheckSession(a.Keys.Member(a.ID), session)}, ops...)
	last := len(send)
	send = append(send, store.Op{})
	for tries := 3; ; tries-- {
		index := a.index.Load()
		if index == unknownIndex {
			e, err := a.read(ctx)
			if err != nil {
				return err
			}
			index = e.ModifyIndex
		}
		send[last] = store.CAS(key, value().Encode(), 0, index)
		result, err := a.Store.Txn(ctx, send...)
		if err == nil {
			e, _ := result.Entry(key)
			// if the other actor has not written it since
			a.index.CompareAndSwap(index, e.ModifyIndex)
			return nil
		}
		r, refused := errors.AsType[*store.RefusedError](err)
		if stale := refused && r.Op == last; stale || store.OutcomeUnknown(err) {
			a.index.Store(unknownIndex)
			if stale && tries > 1 {
				continue
			}
		}
		return err
	}
}

// read reads the ack; it is found if its index is not 0.
func (a *OwnAck) read(ctx context.Context) (store.Entry, error) {
	e, _, _, err := a.Store.Get(ctx, a.Keys.Ack(a.ID), store.Consistent)
	if err == nil {
		a.index.Store(e.ModifyIndex)
		ack, _, _ := a.Keys.ReadAck(e)
		a.seen(ack.Counter)
	}
	return e, err
}

// joinKey is the sequence key of this member's registrations. Without it a copy of one that found
// no ack could be applied once more after the goodbye, which takes the ack away.
func (a *OwnAck) joinKey() string { return joinKey(a.Keys, a.ID) }

func joinKey(k protocol.Keys, id string) string { return k.SequenceOf("join", id) }
