package configstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// alreadyApplied handles a write that an earlier try has applied, whose answer was lost or which
// was sent before a crash. It reads the keys: somebody may have changed them since.
func (a *consulWriter) alreadyApplied(ctx context.Context, j *job) (outcome, []ownWrite, bool) {
	at := uint64(0) // the index of the write; it is known of the newest write only
	if j.seq == a.marker.Seq {
		at = a.marker.lastWriteIndex()
	}
	if at <= a.cached { // the watch has brought the write, or Consul was restored
		a.invalidate()
	}
	entries, _, denied, ok := a.readKeys(ctx, j)
	if !ok {
		return outcome{}, nil, false
	}
	o := outcome{seq: j.seq, at: at, keys: map[string]uint64{}}
	if denied != nil { // the token may not look any more, and the write is applied all the same
		a.invalidate()
		for _, op := range j.ops {
			switch {
			case op.verb == verbRemove:
				o.keys[op.key] = 0
			case op.verb == verbSet && at != 0:
				o.keys[op.key] = at
			}
		}
		return o, nil, true
	}
	var own []ownWrite
	for i, op := range j.ops {
		if op.verb == verbExpect {
			continue
		}
		e := entries[i]
		own = append(own, ownOf(a.keys, op.key, e, at))
		switch {
		case op.verb == verbRemove:
			o.keys[op.key] = 0
		case at == 0 && e.CreateIndex != 0 && bytes.Equal(e.Value, op.value), at != 0 &&
			e.CreateIndex != 0 && e.ModifyIndex <= at:
			o.keys[op.key] = e.ModifyIndex
		case at != 0: // somebody has written since; this write had the transaction's own index
			o.keys[op.key] = at
		default: // the index is not known: a write that is based on this one is a conflict
		}
	}
	return o, own, true
}

func ownOf(keys protocol.Keys, key string, e store.Entry, at uint64) ownWrite {
	if e.CreateIndex == 0 {
		return ownWrite{index: at, key: key}
	}
	entry, _ := fromStore(keys, e)
	return ownWrite{index: e.ModifyIndex, key: key, entry: entry}
}

// readKeys reads the keys of a write until Consul answers, and tells whether the marker has moved,
// or that the token may not read them. ok is false when the store stops.
func (a *consulWriter) readKeys(ctx context.Context, j *job) (entries []store.Entry, moved bool,
	denied error, ok bool) {
	ops := make([]store.Op, len(j.ops), len(j.ops)+1)
	for i, o := range j.ops {
		ops[i] = store.GetOrEmpty(a.keys.ConfigKey(o.key))
	}
	ops = append(ops, store.GetOrEmpty(a.markerKey()))
	err := a.store.Retry(ctx, "config write", func(ctx context.Context) error {
		res, err := a.store.ReadTxn(ctx, ops...)
		if entries = res.Entries; errors.Is(err, store.ErrDenied) {
			denied = err
			return nil
		} else if err != nil {
			a.failedAt = time.Now()
		}
		return err
	})
	if err == nil && denied != nil {
		return nil, false, denied, true
	}
	if err != nil || len(entries) != len(ops) {
		return nil, false, nil, false
	}
	return entries[:len(j.ops)], entries[len(j.ops)].ModifyIndex != a.marker.index, nil, true
}
