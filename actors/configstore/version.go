package configstore

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/coordd/coordd/internal/protocol"
)

// Version is a number for what the snapshot has of a prefix: it is the same in all snapshots, of
// whichever store, that have the same keys at the same indices, and another one in others (as far
// as 64 bits tell them apart). It costs a look at each key once, however many ask the same snapshot
// for it.
func (s Snapshot) Version(prefix string) uint64 {
	if s.versions == nil {
		return s.hash(prefix)
	}
	return s.versions.of(prefix, s.hash)
}

func (s Snapshot) hash(prefix string) uint64 {
	h := fnv.New64a()
	for e := range s.All(prefix) {
		fmt.Fprintf(h, "%s %d\n", e.Key, e.Index)
	}
	return h.Sum64()
}

// versions are those of one tree that somebody has asked for.
type versions struct {
	mu     sync.Mutex
	number map[string]func() uint64 // by prefix
}

// rememberedVersions is how many prefixes of one snapshot have their version remembered: as many as
// package web has places for requests that wait.
const rememberedVersions = 128

// of returns the version of a prefix. Those who ask for it while one finds it out wait.
func (v *versions) of(prefix string, hash func(string) uint64) uint64 {
	v.mu.Lock()
	number, known := v.number[prefix]
	if !known {
		number = sync.OnceValue(func() uint64 { return hash(prefix) })
		// No key is as long, so that there is nothing to look at, and nothing to remember.
		if len(v.number) < rememberedVersions && len(prefix) <= protocol.MaxConfigKeyBytes {
			if v.number == nil {
				v.number = map[string]func() uint64{}
			}
			v.number[strings.Clone(prefix)] = number // not all that the prefix was cut from
		}
	}
	v.mu.Unlock()
	return number()
}
