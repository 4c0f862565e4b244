package member

import (
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// batch is how many items are started or released between two looks at the
// lease and the states: one transaction's worth.
const (
	startBatch   = 64
	releaseBatch = store.MaxOps - 2
)

// nextAlone is how soon something else is tried when one item could not be read, or released.
const nextAlone = 200 * time.Millisecond

// alone takes in that an item could not be read, or released, by itself: it rests, and all others
// go on.
func (a *WorkerManager) alone(rests missing, what, id string, err error) {
	now := time.Now()
	a.Store.Failed(what+id, err, rests.fails(id, now))
	a.again = now.Add(nextAlone)
}

func (a *WorkerManager) releaseBatch() int {
	if a.freed == 0 {
		return releaseBatch
	}
	return a.freed
}

// releasePace chooses how many items are released at once, by what came of the last n.
func (a *WorkerManager) releasePace(n int, err error) {
	switch {
	case err != nil && !errors.Is(err, store.ErrRefused):
		a.freed = max(1, n/2)
	case err == nil && a.freed != 0:
		if a.freed *= 2; a.freed >= releaseBatch {
			a.freed = 0
		}
	}
}

func (a *WorkerManager) startBatch() int {
	if a.fewer == 0 {
		return startBatch
	}
	return a.fewer
}

// readPace chooses how many payloads are read at once, by how long the last ones took. Nobody can
// ask Consul how large they are, and 64 of 380 KiB take longer than a call has on a line of 80
// Mbit/s; nor is anything stopped or released while they are read.
func (a *WorkerManager) readPace(n int, read store.Result, took time.Duration, err error) {
	const slow, brisk, large = time.Second, 300 * time.Millisecond, 128 << 10
	size := 0
	for _, e := range read.Entries {
		size += len(e.Value)
	}
	switch {
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrDenied):
		a.fewer = max(1, n/2) // one of them is, the others may not be
	case err != nil && !errors.Is(err, store.ErrUnreachable):
	case err != nil && store.OutcomeUnknown(err), took > slow && size > large:
		a.fewer = max(1, n/2)
	case err == nil && took < brisk && a.fewer != 0:
		if a.fewer *= 2; a.fewer >= startBatch {
			a.fewer = 0
		}
	}
}
