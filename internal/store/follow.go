package store

import (
	"context"
	"iter"
	"sync"
	"time"
)

// Polls ends the long polls of several watches together, and has the watches read anew: after the
// session was lost or Consul was away. A long poll may then hang on a dead connection until its
// time is over. And a Consul that came back empty counts its index from the beginning, so a poll
// with an index of before waits for what may never come, or finds the number that it had seen and
// takes it for no news. The zero value is ready. Safe for concurrent use.
type Polls struct {
	mu   sync.Mutex
	base context.Context
	end  context.CancelFunc
	n    int
}

// Renew ends every poll that is under way. The next answer of each watch is that of a plain read.
func (p *Polls) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.end != nil {
		p.end()
		p.base, p.end = nil, nil
	}
}

// begin returns the context of a poll, which ends with ctx or the next Renew, and the number of
// renewals so far. The func frees it.
func (p *Polls) begin(ctx context.Context) (context.Context, int, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.base == nil {
		p.base, p.end = context.WithCancel(context.Background())
	}
	poll, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.base, cancel)
	return poll, p.n, func() { stop(); cancel() }
}

// Views is the loop of a watch: it yields each view until ctx ends, asks again on the ladder after
// a failure, and asks at once when polls are renewed. Next makes one poll: it calls [Watch.Next]
// with the poll's context and may look at what comes of it. Rest before the next view is asked for:
// a prefix is read whole at each change.
func (w *Watch) Views(ctx context.Context, what string, polls *Polls,
	next func(context.Context) (View, error)) iter.Seq[View] {
	renewals := 0
	ask := func(ctx context.Context) (View, error) {
		for {
			poll, n, done := polls.begin(ctx)
			if n != renewals {
				w.index, renewals = 0, n
			}
			view, err := next(poll)
			renewed := poll.Err() != nil && ctx.Err() == nil
			done()
			if err == nil || !renewed {
				return view, err
			}
		}
	}
	return Repeat(ctx, w.store, what, nil, ask)
}

// Anew tells whether the next answer is that of a plain read: the first, the first after an error,
// and the first after a renewal of the polls.
func (w *Watch) Anew() bool { return w.index == 0 }

// Crowd makes a watch rest a little longer with each view that comes right upon the one before: by
// 10 ms each, up to 100 ms. A single change is seen at once, a burst of them together; and an index
// that leaps to and fro, as behind a broken proxy, is not followed at full speed.
type Crowd struct {
	last time.Time
	n    int
}

// Rest is how long to rest after v. A prefix is read whole at each change, so it is at least 1 ms
// for each hundred keys, up to 1 s.
func (c *Crowd) Rest(v View) time.Duration {
	now := time.Now()
	if now.Sub(c.last) > 250*time.Millisecond {
		c.n = 0
	}
	crowded := time.Duration(min(c.n, 10)) * 10 * time.Millisecond
	c.n, c.last = c.n+1, now
	return max(crowded, min(time.Duration(len(v.Entries)/100)*time.Millisecond, time.Second))
}
