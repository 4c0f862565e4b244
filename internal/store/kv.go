package store

import (
	"context"
	"errors"
)

// MaxKVBytes is the largest value that [KV.Put] writes: what fits into one transaction in base64.
const MaxKVBytes = 380 << 10

// KV is a small key-value store for hosts, on the retry ladder: a call lasts
// until it succeeds, cannot succeed, or its context ends. Keys are used as
// given. Nothing is cached.
type KV struct {
	store Store
	// sequence names the sequence key that goes with the writes of a key.
	sequence func(key string) string
}

// NewKV returns the key-value store. Sequence names the sequence key that goes with the writes of a
// key: always the same for a key; several keys may share one.
func NewKV(s Store, sequence func(key string) string) *KV { return &KV{s, sequence} }

// Get returns the value that key has now, and not one from the past of a server that lags; a key
// with an empty value gives an empty value, a missing one [ErrNotFound].
func (kv *KV) Get(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := Retry(ctx, kv.store, "kv get", func(ctx context.Context) error {
		e, found, _, err := kv.store.Get(ctx, key, Consistent)
		if err == nil && !found {
			return &callError{kind: ErrNotFound, op: "get " + key,
				text: "nobody wrote it, or it was deleted"}
		}
		value = e.Value
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

// Put writes value, of at most [MaxKVBytes], over whatever key holds; its flags stay. It takes
// effect at most once: no late or second copy of a request writes it again, over a newer value or
// after a Delete. Each try replaces only what was read just before.
func (kv *KV) Put(ctx context.Context, key string, value []byte) error {
	if len(value) > MaxKVBytes {
		return Invalid("put "+key, "the value has %d bytes; at most %d can be written", len(value),
			MaxKVBytes)
	}
	return kv.write(ctx, "kv put", key, func(old Entry) (Op, bool) {
		return CAS(key, value, old.Flags, old.ModifyIndex), true
	})
}

// Delete removes key, at most once, as Put writes it. A missing key is no error.
func (kv *KV) Delete(ctx context.Context, key string) error {
	return kv.write(ctx, "kv delete", key, func(old Entry) (Op, bool) {
		return DeleteCAS(key, old.ModifyIndex), old.CreateIndex != 0
	})
}

// write reads key and sends the operation that replaces exactly what was read, under one name of
// the sequence key, until it is applied. False: there is nothing to do.
func (kv *KV) write(ctx context.Context, what, key string, replace func(Entry) (Op, bool)) error {
	sequence, name := kv.sequence(key), NewName()
	var since *Sequence // before the first try
	try := func(ctx context.Context) error {
		res, err := kv.store.Txn(ctx, GetOrEmpty(key), GetOrEmpty(sequence))
		if err != nil {
			return err
		}
		now := SequenceIn(sequence, res.Entries[1])
		if since != nil {
			switch applied, known := now.Outcome(*since, name); {
			case applied:
				return nil
			case !known:
				return Invalid(what+" "+key, "whether it was applied is not known, for many others "+
					"have written since: read it and decide anew")
			}
		}
		op, needed := replace(res.Entries[0])
		if !needed {
			return nil
		}
		if since == nil {
			since = &now
		}
		_, err = kv.store.Txn(ctx, op, now.Move(name))
		return err
	}
	for pause := NewLadder(); ; {
		err := Retry(ctx, kv.store, what, try)
		if !errors.Is(err, ErrRefused) {
			return err
		}
		if !Pause(ctx, pause.NextBackOff()) {
			return ended(what, &callError{kind: ErrRefused, op: what + " " + key,
				text: "others write to it all the time"}, ctx.Err())
		}
	}
}
