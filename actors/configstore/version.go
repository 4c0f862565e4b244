package configstore

import (
	"encoding/binary"
	"hash/fnv"
)

// Version is a number for what the snapshot has of a prefix: it is the same in all snapshots, of
// whichever store, that have the same keys at the same indices, and another one in others (as far
// as 64 bits tell them apart). It costs a look at each key.
func (s Snapshot) Version(prefix string) uint64 {
	h, line := fnv.New64a(), []byte{}
	for e := range s.All(prefix) {
		line = append(append(line[:0], e.Key...), 0) // no key holds a zero
		line = binary.LittleEndian.AppendUint64(line, e.Index)
		_, _ = h.Write(line)
	}
	return h.Sum64()
}
