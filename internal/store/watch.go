package store

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"
)

// Watch follows one key or one prefix by blocking queries. It is pulled: it
// has no goroutine, and a Watch that is not asked costs nothing. One goroutine
// at a time may use it.
type Watch struct {
	store *Store
	query query
	wait  time.Duration
	quiet bool
	index uint64 // of the last answer; 0: the next call reads without waiting

	feed   *feed  // that a quiet watch follows; nil: none
	number uint64 // of the feed's last view that this watch has looked at
}

// View is what a watch saw: everything under its prefix, or the one key if it
// exists, at one moment.
type View struct {
	Entries []Entry // sorted by key
	Index   uint64  // X-Consul-Index, at least 1
}

// Watch follows one key. A key in lock-delay looks like a missing one, and
// nothing wakes the watch when the delay ends.
func (s *Store) Watch(key string) *Watch {
	return &Watch{store: s, query: query{key: key, timeout: s.callTimeout}, wait: s.pollWait}
}

// WatchPrefix follows all keys under prefix, which must end in "/". Keep one
// key in it at all times: an empty prefix is woken by every write to a
// neighbour (25,977 times for 100 writes elsewhere, against none).
func (s *Store) WatchPrefix(prefix string) *Watch {
	return &Watch{store: s, query: query{key: prefix, recurse: true,
		timeout: largeRead * s.callTimeout}, wait: s.pollWait}
}

// Wait sets how long one poll waits at the server, [MaxPollWait] at most: a poll
// that ends without a change brings the whole prefix again, so a large one that
// is watched from many places had better wait long. Default: the store's poll wait. It returns w.
func (w *Watch) Wait(d time.Duration) *Watch {
	w.wait = min(d, MaxPollWait)
	return w
}

// Quiet has a poll given up and asked again shortly before it would end without a change: that end
// would bring the whole prefix, for nothing. What is given up costs its connection, and the server
// goes on with it for the moment that its wait has left. A poll that hangs is not told from one
// that waits: for those who ask Consul for its health by other means. Under [SharePolls] a quiet
// watch of a prefix takes another watch's views instead of polling. It returns w.
func (w *Watch) Quiet() *Watch {
	w.quiet = true
	return w
}

// errQuiet ends a quiet poll: it says nothing of the connection.
var errQuiet = errors.New("given up before its end")

// quietFor is when a quiet poll is given up: as late as it can be without meeting its end.
func (w *Watch) quietFor() time.Duration { return w.wait - min(5*time.Second, w.wait/8) }

// Next answers at once the first time, and the first time after an error, and
// then whenever X-Consul-Index has moved. Polls that end without a change are
// asked again and not reported. An index that went back (a restored snapshot,
// another server) is read anew and answered. Every read that does not wait is
// consistent: a Consul server that has just begun to lead answers the default
// mode from the past for as long as it replays its log (seen after a restart:
// the leader key missing for 800 ms). Ctx ends the wait at once; without
// that a poll lasts at most the poll wait, the server's jitter of a sixteenth
// of it, and the call timeout. Pause between errors: Next does not.
func (w *Watch) Next(ctx context.Context) (View, error) {
	if w.feed != nil {
		return w.followed(ctx)
	}
	return w.own(ctx)
}

// own is Next by polls of this watch.
func (w *Watch) own(ctx context.Context) (View, error) {
	if w.index == 0 {
		return w.first(ctx)
	}
	pause := NewSteadyLadder()
	for {
		asked := time.Now()
		entries, index, err := w.store.poll(ctx, w)
		switch {
		case err != nil && w.quiet && ctx.Err() == nil && time.Since(asked) >= w.quietFor():
			continue
		case err != nil:
			w.index = 0
			return View{}, err
		case index < w.index:
			w.index = 0
			return w.first(ctx)
		case index > w.index:
			w.index = index
			return View{Entries: entries, Index: index}, nil
		}
		// Nothing changed. A server may wake a poll for nothing now and then; one
		// that always does must not turn this into a hot loop.
		if time.Since(asked) < w.wait/2 {
			if !Pause(ctx, pause.NextBackOff()) {
				return View{}, w.gaveUp(ctx)
			}
		}
	}
}

// gaveUp is the error of a wait that ended with ctx.
func (w *Watch) gaveUp(ctx context.Context) error {
	w.index = 0
	c, err := call{op: "watch", key: w.query.key}, ctx.Err()
	return &callError{kind: ErrUnreachable, op: c.String(),
		text: "gave up waiting: " + err.Error(), ended: err}
}

func (w *Watch) first(ctx context.Context) (View, error) {
	q := w.query
	q.opts = Consistent.options()
	entries, index, err := w.store.read(ctx, q)
	if err != nil {
		return View{}, err
	}
	w.index = index
	return View{Entries: entries, Index: index}, nil
}

func (s *Store) poll(ctx context.Context, w *Watch) ([]Entry, uint64, error) {
	wait := w.wait
	if w.quiet {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.quietFor(), errQuiet)
		defer cancel()
	}
	q := w.query
	q.opts = &api.QueryOptions{WaitIndex: w.index, WaitTime: wait}
	// The server adds up to a sixteenth; the rest is for the way there and back.
	// A large prefix may take longer than that: then the error makes the next
	// call a plain read, which has more time.
	q.timeout = wait + wait/16 + s.callTimeout
	return s.read(ctx, q)
}
