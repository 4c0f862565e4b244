package store

import (
	"math"
	"strconv"
)

// A sequence key makes the transactions of one writer take effect once at most. Each of them begins
// with a cas of that key at the index that the writer knows, with a value that was never there. So
// its own success makes its condition false: a second copy of the request, which a proxy or a dying
// connection delivers at any later moment, is refused. So is what is still on its way when a newer
// transaction of that writer has been applied.
//
// Sequence keys lie below a prefix that nobody watches. They are never deleted: a cas with index 0
// would hold again.

// Advance moves the sequence key from index, 0 if it does not exist, to the next one. The value is
// the index, which is larger than any that the key held before: Consul does not raise the index for
// an identical value.
func Advance(key string, index uint64) Op {
	return CAS(key, strconv.AppendUint(nil, index, 10), 0, index)
}

// longest is the largest form of Advance, for measuring.
func longest(key string) Op { return Advance(key, math.MaxUint64) }
