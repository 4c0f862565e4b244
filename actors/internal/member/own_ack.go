package member

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// The membership-keeper is the only writer of its member's acks key. It numbers the acks, so that no
// two writes of the key are equal: Consul does not wake a watch for a value that stays the same. It
// knows the key's index, by which each write is conditioned.

// AckWrite has the membership-keeper raise the ack, so that the leader looks again, and apply Ops in
// the same transaction. The error is the transaction's; in a [store.RefusedError] operation 0 is the
// condition that the record is still Session's, and those of Ops follow.
type AckWrite struct {
	Session string
	Ops     []store.Op
	// Failing says that the member's summary names work that has failed too often; nil: as before.
	Failing *bool
}

// ownAck is what the membership-keeper knows of its acks key.
type ownAck struct {
	n, index uint64
	taken    uint64 // the last n that Consul took; 0: none
	failing  bool
	lockless bool // what was last written names no lock
}

// unknownIndex: the key has to be read first.
const unknownIndex = math.MaxUint64

// ackValue is what this member writes to the key. While it is not clear, inherited is the longest
// lease that a predecessor may still count on: should this one die before it is clear, that is what
// must be waited for.
func (a *MembershipKeeper) ackValue(session string, clear bool,
	inherited time.Duration) protocol.Ack {
	ttl := a.Lease
	if !clear {
		ttl = max(ttl, inherited)
	}
	by := a.Process
	by.Lock = a.Lock()
	a.ack.lockless = by.Lock == ""
	a.ack.n++
	return protocol.Ack{Counter: a.ack.n, Session: session, By: by, Clear: clear, TTL: ttl,
		Failing: a.ack.failing, Copied: a.Copied.Get()}
}

// writeAck carries out an [AckWrite].
func (a *MembershipKeeper) writeAck(ctx context.Context, w AckWrite) (struct{}, error) {
	if w.Failing != nil {
		a.ack.failing = *w.Failing
	}
	m := a.out.Get()
	clear := m.ClearAt.IsZero() || !time.Now().Before(m.ClearAt)
	return struct{}{}, a.raise(ctx, w.Session, clear, m.Inherited, w.Ops...)
}

// raise applies ops and writes the ack in one transaction, under the condition that the record is
// still session's and that the ack is as it was known: so neither a second copy of the request nor
// one that arrives late takes a newer ack back. Where it is not, it is read.
func (a *MembershipKeeper) raise(ctx context.Context, session string, clear bool,
	inherited time.Duration, ops ...store.Op) error {
	key := a.Keys.Ack(a.ID)
	send := append([]store.Op{store.CheckSession(a.Keys.Member(a.ID), session)}, ops...)
	last := len(send)
	send = append(send, store.Op{})
	for again := true; ; again = false {
		if a.ack.index == unknownIndex {
			if err := a.readAck(ctx); err != nil {
				return err
			}
		}
		send[last] = store.CAS(key, a.ackValue(session, clear, inherited).Encode(), 0, a.ack.index)
		result, err := a.Store.Txn(ctx, send...)
		if err == nil {
			e, _ := result.Entry(key)
			a.ack.index, a.ack.taken = e.ModifyIndex, a.ack.n
			return nil
		}
		r, refused := errors.AsType[*store.RefusedError](err)
		stale := refused && r.Op == last
		if stale || store.OutcomeUnknown(err) {
			a.ack.index = unknownIndex
		}
		if !stale || !again {
			return err
		}
	}
}

// readAck reads the ack.
func (a *MembershipKeeper) readAck(ctx context.Context) error {
	e, _, _, err := a.Store.Get(ctx, a.Keys.Ack(a.ID), store.Consistent)
	if err == nil {
		a.sawAck(e)
	}
	return err
}

// sawAck takes in the key as it was read; it is found if its index is not 0.
func (a *MembershipKeeper) sawAck(e store.Entry) {
	ack, _, _ := a.Keys.ReadAck(e)
	a.ack.index, a.ack.n = e.ModifyIndex, max(a.ack.n, ack.Counter)
	if ack.Copied {
		a.Copied.Set(true)
	}
}
