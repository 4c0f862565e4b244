package routing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// What looking items up in the workload may cost Consul, however many ask for items that do not
// exist.
const (
	lookupTTL  = time.Second // an answer counts for this long
	lookupRate = 200         // reads a second, and so many at once after a rest
	maxLookups = 4096        // answers kept
)

// lookups are reads of the workload. Each is shared by all who ask for the same item.
type lookups struct {
	store *protocol.Store
	reads singleflight.Group
	rate  *rate.Limiter

	mu     sync.Mutex
	cached map[string]lookup
}

// lookup tells whether an item was in the workload when it was asked for.
type lookup struct {
	at     time.Time
	exists bool
}

func newLookups(s *protocol.Store) *lookups {
	return &lookups{store: s, rate: rate.NewLimiter(lookupRate, lookupRate),
		cached: map[string]lookup{}}
}

// inWorkload tells whether an item is in the workload, or was within the last second.
func (l *lookups) inWorkload(ctx context.Context, item string) (bool, error) {
	l.mu.Lock()
	last, ok := l.cached[item]
	l.mu.Unlock()
	if ok && time.Since(last.at) < lookupTTL {
		return last.exists, nil
	}
	if ctx.Err() != nil { // nobody waits for the answer
		return false, ctx.Err()
	}
	// The read does not end with the client that happened to come first.
	answer := l.reads.DoChan(item, func() (any, error) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultCallTimeout)
		defer cancel()
		return l.read(call, item)
	})
	select {
	case a := <-answer:
		return a.Err == nil && a.Val.(bool), a.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (l *lookups) read(ctx context.Context, item string) (exists bool, err error) {
	// at once, if its turn would come too late
	if err := l.rate.Wait(ctx); err != nil {
		return false, fmt.Errorf("too many items that nobody has are asked for: %w", err)
	}
	sent := time.Now()
	_, exists, _, err = l.store.Get(ctx, l.store.Keys().WorkItem(item), store.Consistent)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cached) >= maxLookups {
		clear(l.cached)
	}
	l.cached[item] = lookup{sent, exists}
	return exists, nil
}
