package actors

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// ackCounter is what this member knows of its acks key, which two of its actors write. It numbers
// the acks, so that no two writes of the key are equal: Consul does not wake a watch for a value
// that stays the same. And it holds the key's index as far as it is known, by which each write is
// conditioned.
type ackCounter struct{ n, index atomic.Uint64 }

// unknownIndex: the key has to be read first.
const unknownIndex = math.MaxUint64

func (c *ackCounter) next() uint64 { return c.n.Add(1) }

// seen makes the numbers go on above one that was read.
func (c *ackCounter) seen(n uint64) {
	for {
		have := c.n.Load()
		if n <= have || c.n.CompareAndSwap(have, n) {
			return
		}
	}
}

// raiseAck applies ops and writes the ack in one transaction, under the condition that the record
// is still session's and that nobody has written the ack since it was known: so neither a second
// copy of the request nor one that arrives late takes a newer ack back. Where it was written, or an
// earlier outcome is unknown, it is read and value is asked again: value is always asked after the
// index was taken, so what the ack of that index said is known by then. A refusal counts the
// operations as they are sent: 0 is the record, those in ops follow.
func (h *base) raiseAck(ctx context.Context, session string, value func() protocol.Ack,
	ops ...store.Op) error {
	key := h.keys.Ack(h.ID)
	send := append([]store.Op{store.CheckSession(h.keys.Member(h.ID), session)}, ops...)
	last := len(send)
	send = append(send, store.Op{})
	for tries := 3; ; tries-- {
		index := h.acks.index.Load()
		if index == unknownIndex {
			e, err := h.readAck(ctx)
			if err != nil {
				return err
			}
			index = e.ModifyIndex
		}
		send[last] = store.CAS(key, value().Encode(), 0, index)
		result, err := h.store.Txn(ctx, send...)
		if err == nil {
			e, _ := result.Entry(key)
			// if the other actor has not written it since
			h.acks.index.CompareAndSwap(index, e.ModifyIndex)
			return nil
		}
		r, refused := errors.AsType[*store.RefusedError](err)
		if stale := refused && r.Op == last; stale || store.OutcomeUnknown(err) {
			h.acks.index.Store(unknownIndex)
			if stale && tries > 1 {
				continue
			}
		}
		return err
	}
}

// readAck reads the ack; it is found if its index is not 0.
func (h *base) readAck(ctx context.Context) (store.Entry, error) {
	e, _, _, err := h.store.Get(ctx, h.keys.Ack(h.ID), store.Consistent)
	if err == nil {
		h.acks.index.Store(e.ModifyIndex)
		if ack, err := protocol.ParseAck(e.Value); err == nil {
			h.acks.seen(ack.Counter)
		}
	}
	return e, err
}

// joinKey is the sequence key of this member's registrations. Without it a copy of one that found
// no ack could be applied once more after the goodbye, which takes the ack away.
func (h *base) joinKey() string { return h.keys.SequenceOf("join", h.ID) }
