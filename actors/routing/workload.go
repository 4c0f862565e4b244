package routing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// What looking items up may cost Consul, however many ask for items that do not exist.
const (
	lookupLasts = time.Second // an answer counts for this long
	lookups     = 8           // reads under way at one time
	lookupRate  = 200         // reads a second, and so many at once after a rest
	lookedUp    = 4096        // answers kept
)

// workload tells whether an item is in the workload.
type workload struct {
	store *store.Store
	reads singleflight.Group
	slots chan struct{}
	rate  *rate.Limiter

	mu    sync.Mutex
	known map[string]lookup
}

type lookup struct {
	exists bool
	at     time.Time
}

func newWorkload(s *store.Store) *workload {
	return &workload{store: s, slots: make(chan struct{}, lookups), rate: rate.NewLimiter(lookupRate, lookupRate), known: map[string]lookup{}}
}

func (w *workload) has(ctx context.Context, item string) (bool, error) {
	w.mu.Lock()
	last, ok := w.known[item]
	w.mu.Unlock()
	if ok && time.Since(last.at) < lookupLasts {
		return last.exists, nil
	}
	if ctx.Err() != nil { // nobody waits for the answer
		return false, ctx.Err()
	}
	// The read is everybody's: it does not end with the one who happened to come first.
	answer := w.reads.DoChan(item, func() (any, error) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultCallTimeout)
		defer cancel()
		if err := w.rate.Wait(call); err != nil { // at once, if its turn would come too late
			return false, fmt.Errorf("too many items that nobody has are asked for: %w", err)
		}
		select {
		case w.slots <- struct{}{}:
			defer func() { <-w.slots }()
		case <-call.Done():
			return false, call.Err()
		}
		_, found, _, err := w.store.Get(call, w.store.Keys().WorkItem(item), store.Consistent)
		if err == nil {
			w.keep(item, lookup{found, time.Now()})
		}
		return found, err
	})
	select {
	case a := <-answer:
		return a.Err == nil && a.Val.(bool), a.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (w *workload) keep(item string, l lookup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= lookedUp {
		clear(w.known)
	}
	w.known[item] = l
}
