package configstore

import (
	"fmt"
	"hash/fnv"
)

// Version is a number for what the snapshot has of a prefix: it is the same in all snapshots, of
// whichever store, that have the same keys at the same indices, and another one in others (as far
// as 64 bits tell them apart). It costs a look at each key.
func (s Snapshot) Version(prefix string) uint64 {
	h := fnv.New64a()
	for e := range s.All(prefix) {
		fmt.Fprintf(h, "%s %d\n", e.Key, e.Index)
	}
	return h.Sum64()
}
