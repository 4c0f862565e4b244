package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"
)

// KV is a small key-value store for hosts, on the retry ladder: a call lasts
// until it succeeds, cannot succeed, or its context ends. Keys are used as
// given. Nothing is cached.
type KV struct {
	store *Store
	// counter names the sequence key that goes with the creation of a key.
	counter func(key string) string
}

// KV returns the key-value store. Counter names the sequence key that goes with the creation of a
// key: always the same for a key; several keys may share one.
func (s *Store) KV(counter func(key string) string) *KV { return &KV{s, counter} }

// Get returns the value that key has now, and not one from the past of a server that lags; a key
// with an empty value gives an empty value, a missing one [ErrNotFound].
func (kv *KV) Get(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := kv.store.Retry(ctx, "kv get", func(ctx context.Context) error {
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

// Put writes value, of at most 524288 bytes, over whatever key holds; flags become 0. When it
// returns nil the value was written, and no late or second copy of the request can write it again
// over a newer one, nor after a Delete: each try replaces only what was read just before, and one
// that creates the key moves its counter as well, as do those after it. A try whose outcome was
// unknown counts as done when the value is found in place; where others have replaced it meanwhile
// it is written once more, over theirs. A value of more than 380 KiB has no such counter: a second
// copy of the request that created its key creates it once more if it arrives after a Delete.
func (kv *KV) Put(ctx context.Context, key string, value []byte) error {
	if len(value) > MaxValueBytes {
		return Invalid("put "+key, "the value has %d bytes; Consul takes %d", len(value),
			MaxValueBytes)
	}
	creates := false // a try that creates the key may be under way
	return kv.replace(ctx, "kv put", key, func(ctx context.Context, old Entry, found bool) (bool,
		error) {
		write := CAS(key, value, 0, old.ModifyIndex)
		if found && old.Flags == 0 && bytes.Equal(old.Value, value) {
			if !creates {
				return true, nil
			}
			write = CheckIndex(key, old.ModifyIndex)
		}
		if base64.StdEncoding.EncodedLen(len(value)) > MaxBodyBytes-4096 {
			return kv.putLarge(ctx, key, value, old.ModifyIndex)
		}
		ops := []Op{write}
		if creates = creates || !found; creates {
			counter := kv.counter(key)
			e, _, _, err := kv.store.Get(ctx, counter, Consistent)
			if err != nil {
				return false, err
			}
			ops = append(ops, Advance(counter, e.ModifyIndex))
		}
		_, err := kv.store.NamedTxn(ctx, "put", ops...)
		return err == nil, err
	})
}

// putLarge writes a value that would not fit into a transaction in base64. It is the exception
// because of its answer, the bare word true or false. The client finds that word in any page, so it
// is believed only once the key is seen to have moved. Its request has the key in its path.
func (kv *KV) putLarge(ctx context.Context, key string, value []byte, index uint64) (done bool,
	err error) {
	c := call{op: "put", key: key, timeout: kv.store.callTimeout + atThinnest(len(value)),
		need: fmt.Sprintf("key:write on %q", key)}
	if err := CheckPrints(c.op, key); err != nil {
		return false, err
	}
	err = kv.store.do(ctx, c, func(ctx context.Context) error {
		pair := &api.KVPair{Key: key, Value: value, ModifyIndex: index}
		done, _, err = kv.store.client.KV().CAS(pair, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err != nil || !done {
		return false, err
	}
	asItWas := CheckNotExists(key)
	if index > 0 {
		asItWas = CheckIndex(key, index)
	}
	switch _, err := kv.store.ReadTxn(ctx, asItWas); {
	case errors.Is(err, ErrRefused):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, unreachable(c.String(), "the answer says true, and the key is as it was")
}

// Delete removes key. A missing key is no error. As with Put, a late copy of the request cannot
// delete what was written afterwards. Nor does a try after one whose outcome was unknown: a key
// that was made anew meanwhile had been deleted.
func (kv *KV) Delete(ctx context.Context, key string) error {
	first := uint64(0) // the CreateIndex of the key that is to go
	return kv.replace(ctx, "kv delete", key, func(ctx context.Context, old Entry, found bool) (bool,
		error) {
		if !found || first != 0 && old.CreateIndex != first {
			return true, nil
		}
		first = old.CreateIndex
		_, err := kv.store.NamedTxn(ctx, "delete", DeleteCAS(key, old.ModifyIndex))
		return err == nil, err
	})
}

// replace reads key and lets write replace exactly what was read. It tries
// again, after a pause, while others write in between.
func (kv *KV) replace(ctx context.Context, what, key string, write func(ctx context.Context,
	old Entry, found bool) (bool, error)) error {
	for pause := NewLadder(); ; {
		done := false
		err := kv.store.Retry(ctx, what, func(ctx context.Context) error {
			old, found, _, err := kv.store.Get(ctx, key, Consistent)
			if err != nil {
				return err
			}
			done, err = write(ctx, old, found)
			return err
		})
		if done || err != nil && !errors.Is(err, ErrRefused) {
			return err
		}
		if !Pause(ctx, pause.NextBackOff()) {
			return ended(what, &callError{kind: ErrRefused, op: what + " " + key,
				text: "others write to it all the time"}, ctx.Err())
		}
	}
}
