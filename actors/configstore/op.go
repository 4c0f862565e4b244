package configstore

import (
	"fmt"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// Op is one part of a transaction: see [Set], [SetAt], [Remove], [RemoveAt] and [Expect].
type Op struct {
	key   string
	value []byte
	verb  verb
	guard bool   // the key must be at index
	index uint64 // 0: it must not exist
	flags uint64 // of a set: kept as they are in Consul
	// base is the key's index when the write was taken in, or as the last earlier write of this
	// store has left it
	base uint64
}

type verb uint8

const (
	verbSet verb = iota
	verbRemove
	verbExpect
)

// Set writes a key, whatever it holds.
func Set(key string, value []byte) Op { return Op{key: key, value: value} }

// SetAt writes a key if its index is that of an [Entry]; 0: if it does not exist.
func SetAt(key string, value []byte, index uint64) Op {
	return Op{key: key, value: value, guard: true, index: index}
}

// Remove deletes a key, if it exists.
func Remove(key string) Op { return Op{key: key, verb: verbRemove} }

// RemoveAt deletes a key if it has that index.
func RemoveAt(key string, index uint64) Op {
	return Op{key: key, verb: verbRemove, guard: true, index: index}
}

// Expect changes nothing. The transaction is applied only if the key has that index; 0: only if it
// does not exist.
func Expect(key string, index uint64) Op {
	return Op{key: key, verb: verbExpect, guard: true, index: index}
}

// Key is the key that the operation is about.
func (o Op) Key() string { return o.key }

// wants is the index that the key must have for the operation to be applied; 0: it must not exist.
func (o Op) wants() uint64 {
	if o.guard {
		return o.index
	}
	return o.base
}

func (o Op) check() error {
	if err := protocol.CheckConfigKey(o.key); err != nil {
		return err
	}
	if len(o.value) > MaxValue {
		return fmt.Errorf("%w: the value of config key %q has %d bytes, and at most %d can be "+
			"written (a transaction of Consul's takes 512 KB, with values in base64): store it "+
			"elsewhere and put its address here",
			ErrTooLarge, o.key, len(o.value), MaxValue)
	}
	return nil
}

// Check reports what is wrong with a transaction whatever Consul holds, as [ErrInvalid]. Every
// write is checked so before anything is done.
func Check(ops ...Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("%w: there is no operation in the transaction", ErrInvalid)
	}
	if len(ops) > MaxTxnKeys {
		return fmt.Errorf(
			"%w: the transaction is about %d keys, and at most %d go into one: split it",
			ErrTooLarge, len(ops), MaxTxnKeys)
	}
	seen := make(map[string]bool, len(ops))
	writes, size := false, 0
	for _, o := range ops {
		if err := o.check(); err != nil {
			return err
		}
		if seen[o.key] {
			return fmt.Errorf("%w: config key %q is in the transaction twice", ErrInvalid, o.key)
		}
		seen[o.key] = true
		writes = writes || o.verb != verbExpect
		size += o.sent()
	}
	if !writes {
		return fmt.Errorf("%w: nothing in the transaction writes", ErrInvalid)
	}
	if size > store.MaxBodyBytes-sequenceBytes {
		return fmt.Errorf("%w: the transaction has %d bytes with its values in base64, and at "+
			"most %d go into one: split it",
			ErrTooLarge, size, store.MaxBodyBytes-sequenceBytes)
	}
	return nil
}

// sequenceBytes is an upper bound of what the sequence key takes, for a service of any name.
const sequenceBytes = store.SequenceBytes + 6*protocol.MaxIDBytes + 40

// sent is the most that an operation takes in a transaction, for a service's name of any length.
func (o Op) sent() int {
	const around = 120
	n := around + protocol.MaxIDBytes + 32 + 6*len(o.key)
	if o.verb == verbRemove {
		n *= 2
	}
	return n + (len(o.value)+2)/3*4
}

// cost estimates what an operation takes in memory and in the log.
func (o Op) cost() int { return 128 + 2*len(o.key) + len(o.value)/3*4 }
