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
	lookupTTL     = time.Second // an answer counts for this long
	lookupsAtOnce = 8           // reads under way at one time
	lookupRate    = 200         // reads a second, and so many at once after a rest
	maxLookups    = 4096        // answers kept
)

// lookups are reads of Consul, each shared by all who ask for the same thing, whose answers count
// for a moment.
type lookups struct {
	store *store.Store
	reads singleflight.Group
	slots chan struct{}
	rate  *rate.Limiter

	mu     sync.Mutex
	cached map[string]lookup
}

// lookup is an answer of Consul's. Its kind says which fields it has.
type lookup struct {
	at     time.Time // from when on it is true: before it was asked for
	exists bool
	index  uint64
	key    foundKey
}

func newLookups(s *store.Store) *lookups {
	return &lookups{store: s, slots: make(chan struct{}, lookupsAtOnce),
		rate: rate.NewLimiter(lookupRate, lookupRate), cached: map[string]lookup{}}
}

// ask returns what read says under this name, or has said within the last second. A read counts for
// cost reads.
func (l *lookups) ask(ctx context.Context, name string, cost int,
	read func(context.Context) (lookup, error)) (lookup, error) {
	l.mu.Lock()
	last, ok := l.cached[name]
	l.mu.Unlock()
	if ok && time.Since(last.at) < lookupTTL {
		return last, nil
	}
	if ctx.Err() != nil { // nobody waits for the answer
		return lookup{}, ctx.Err()
	}
	// The read is everybody's: it does not end with the one who happened to come first.
	answer := l.reads.DoChan(name, func() (any, error) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultCallTimeout)
		defer cancel()
		// at once, if its turn would come too late
		if err := l.rate.WaitN(call, min(cost, lookupRate)); err != nil {
			return lookup{}, fmt.Errorf("too many items that nobody has are asked for: %w", err)
		}
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
		case <-call.Done():
			return lookup{}, call.Err()
		}
		sent := time.Now()
		var found lookup
		// a panic here would end the process: singleflight sees to that
		err := l.store.Contain(name, func() (err error) {
			found, err = read(call)
			return err
		})
		if err != nil {
			return lookup{}, err
		}
		if found.at.IsZero() {
			found.at = sent
		}
		l.cache(name, found)
		return found, nil
	})
	select {
	case a := <-answer:
		if a.Err != nil {
			return lookup{}, a.Err
		}
		return a.Val.(lookup), nil
	case <-ctx.Done():
		return lookup{}, ctx.Err()
	}
}

func (l *lookups) cache(name string, found lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cached) >= maxLookups {
		clear(l.cached)
	}
	l.cached[name] = found
}
