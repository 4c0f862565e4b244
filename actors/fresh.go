package actors

import (
	"context"
	"sync"
)

// freshness tells the watchers when to ask anew: after the session was lost or
// Consul was away. A long poll may then hang on a dead connection until its time is over; and a
// Consul that came back empty counts its index from the beginning, so that a poll with an index of
// before waits for what may never come, or finds the number that it had seen and takes
// it for no news.
type freshness struct {
	mu   sync.Mutex
	base context.Context
	end  context.CancelFunc
	n    int
}

// renew ends every poll that is under way.
func (f *freshness) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.end != nil {
		f.end()
		f.base, f.end = nil, nil
	}
}

// poll returns a context for a poll, which ends with ctx or the next renew, and
// the number of renewals so far. The func frees it.
func (f *freshness) poll(ctx context.Context) (context.Context, int, context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base == nil {
		f.base, f.end = context.WithCancel(context.Background())
	}
	poll, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.base, cancel)
	return poll, f.n, func() { stop(); cancel() }
}
