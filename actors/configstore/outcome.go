package configstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// outcome is what became of a write.
type outcome uint8

const (
	notSent  outcome = iota
	inFlight         // it was sent, and may have been applied
	applied
	refused // it was not applied, and never will be
	unknown // nobody can tell whether it was applied
)

// verdict is the last word about a write.
type verdict struct {
	number  uint64
	outcome outcome
	err     error             // of what was not applied, or is unknown
	at      uint64            // the index of the transaction; 0: not known
	keys    map[string]uint64 // of what was applied: the index of each key; 0: deleted
}

// job is a write in the outbox.
type job struct {
	number uint64
	name   string         // of its transaction: see [store.Sequence]
	since  store.Sequence // the key before it was sent first
	ops    []Op
	taken  time.Time
	state  outcome // notSent or inFlight
	// late: the write had to wait. So it is applied only if its keys are as they were when it was
	// taken in.
	late    bool
	logged  bool
	refused string // why, once that is in the log
	told    bool   // its caller has the verdict, or the file "conflicts" has the write
	size    int
	call    *call // nil: it comes from the log
}

// awaited tells whether somebody waits for the write.
func (j *job) awaited() bool { return j.call != nil && j.call.awaited() }

// abandoned tells whether nobody waits for the write, and nobody counts on the log.
func (j *job) abandoned() bool { return !j.logged && !j.awaited() }

// receipt says what an acknowledged write did.
type receipt struct {
	index uint64            // of the transaction
	keys  map[string]uint64 // the index of each key now; 0: deleted
}

type answer struct {
	receipt
	err error
}

// call is a caller who waits for a write. It may leave, or the outbox answers it: the first of the
// two decides.
type call struct {
	ctx    context.Context
	over   atomic.Bool
	answer chan answer // room for one
}

func newCall(ctx context.Context) *call { return &call{ctx: ctx, answer: make(chan answer, 1)} }

func (c *call) awaited() bool { return c.ctx.Err() == nil && !c.over.Load() }

// tell answers the caller. It returns false if the caller has left.
func (c *call) tell(r receipt, err error) bool {
	if !c.over.CompareAndSwap(false, true) {
		return false
	}
	c.answer <- answer{r, err}
	return true
}

// leave returns false if the answer is there.
func (c *call) leave() bool { return c.over.CompareAndSwap(false, true) }

// txn returns the operations of a write, and for each the index of the job's operation that it
// belongs to. Each has a condition, also one that replaces whatever there is: a request may arrive
// after its sender has given up, and must not replace what others wrote meanwhile.
func (sh *shared) txn(j *job) (ops []store.Op, at []int) {
	add := func(i int, more ...store.Op) {
		for _, op := range more {
			ops, at = append(ops, op), append(at, i)
		}
	}
	for i, o := range j.ops {
		key, index := sh.keys.ConfigKey(o.key), o.wants()
		switch {
		case o.verb == verbSet:
			add(i, store.CAS(key, o.value, o.flags, index))
		case index == 0:
			add(i, store.CheckNotExists(key))
		case o.verb == verbExpect:
			add(i, store.CheckIndex(key, index))
		default: // delete-cas accepts a missing key
			add(i, store.CheckIndex(key, index), store.Delete(key))
		}
	}
	return ops, at
}
