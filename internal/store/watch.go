package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errWentBack: what was written since a snapshot is forgotten.
var errWentBack = errors.New("it was restored from a snapshot, and has forgotten what " +
	"was written since")

// Watch follows one key or one prefix by long polls. It is pulled: it
// has no goroutine, and a Watch that is not asked costs nothing. One goroutine
// at a time may use it.
type Watch struct {
	store Store
	key   string // a prefix ends in "/"
	read  func(context.Context) ([]Entry, uint64, error)
	wait  time.Duration
	index uint64 // of the last answer; 0: the next call reads without waiting
}

// View is what a watch saw: everything under its prefix, or the one key if it
// exists, at one moment.
type View struct {
	Entries []Entry // sorted by key
	Index   uint64  // X-Consul-Index, at least 1
}

// WatchKey follows one key. A key in lock-delay looks like a missing one, and
// nothing wakes the watch when the delay ends.
func WatchKey(s Store, key string) *Watch {
	return &Watch{store: s, key: key, wait: DefaultPollWait,
		read: func(ctx context.Context) ([]Entry, uint64, error) {
			e, found, index, err := s.Get(ctx, key, Consistent)
			if !found {
				return nil, index, err
			}
			return []Entry{e}, index, err
		}}
}

// WatchPrefix follows all keys under prefix, which must end in "/". Keep one
// key in it at all times: an empty prefix is woken by every write to a
// neighbour (25,977 times for 100 writes elsewhere, against none).
func WatchPrefix(s Store, prefix string) *Watch {
	return &Watch{store: s, key: prefix, wait: DefaultPollWait,
		read: func(ctx context.Context) ([]Entry, uint64, error) {
			return s.List(ctx, prefix, Consistent)
		}}
}

// Wait sets how long one poll waits at the server, [MaxPollWait] at most: a poll
// that ends without a change brings the whole prefix again, so a large one that
// is watched from many places had better wait long. Default: [DefaultPollWait]. It returns w.
func (w *Watch) Wait(d time.Duration) *Watch {
	w.wait = min(d, MaxPollWait)
	return w
}

// Next answers at once the first time, and the first time after an error, and
// then whenever X-Consul-Index has moved. Polls that end without a change are
// asked again and not reported; one that ends early is followed by a read. An index that went back
// (a restored snapshot, another server) is read anew and answered. Every read that does not wait is
// consistent: a Consul server that has just begun to lead answers the default mode from the past
// for as long as it replays its log (seen after a restart: the leader key missing for 800 ms). Ctx
// ends the wait at once; without that a poll lasts at most the poll wait, the server's jitter of a
// sixteenth of it, and the call timeout. Pause between errors: Next does not.
func (w *Watch) Next(ctx context.Context) (View, error) {
	if w.index == 0 {
		return w.first(ctx)
	}
	pause, looked := NewSteadyLadder(), false
	for {
		asked := time.Now()
		entries, index, err := w.store.Poll(ctx, w.key, w.index, w.wait)
		switch {
		case err != nil:
			w.index = 0
			return View{}, err
		case index < w.index:
			return w.first(ctx)
		case index > w.index:
			w.index = index
			return View{Entries: entries, Index: index}, nil
		}
		// Nothing changed. A server may wake a poll for nothing now and then; one
		// that always does must not turn this into a hot loop.
		if time.Since(asked) < w.wait/2 {
			if !Pause(ctx, pause.NextBackOff()) {
				w.index = 0
				return View{}, &callError{kind: ErrUnreachable, op: "watch " + w.key,
					text: "gave up waiting: " + ctx.Err().Error(), ended: ctx.Err()}
			}
			// A server that was restored from a snapshot ends each poll so. The next one would wait
			// in vain: its index is one that this server will reach only later.
			was := w.index
			if looked {
				continue
			}
			looked = true
			if v, err := w.first(ctx); err != nil || v.Index != was {
				if err == nil && v.Index < was {
					w.store.Failed(w.key, fmt.Errorf("%w: from index %d to %d", errWentBack, was,
						v.Index), 0)
				}
				return v, err
			}
		} else {
			looked = false
		}
	}
}

func (w *Watch) first(ctx context.Context) (View, error) {
	entries, index, err := w.read(ctx)
	w.index = index
	return View{Entries: entries, Index: index}, err
}
