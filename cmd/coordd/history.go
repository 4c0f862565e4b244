package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/supervisor"
)

// historyFile records what one member does, for verify. A nil one records nothing.
type historyFile struct {
	file *os.File
	rec  *history.Recorder
	proc string

	mu     sync.Mutex
	paused pauseDetector
	stood  time.Time // the end of the last time that was recorded for which all stood still
}

// openHistory opens the file for appending: histories of earlier runs stay in it.
func openHistory(name string) (*historyFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, usage("--history: %v", err)
	}
	if err := history.Mend(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("--history: %w", err)
	}
	return &historyFile{file: f, rec: history.NewQueued(f)}, nil
}

func (h *historyFile) record(e history.Event) {
	e.Proc = h.proc
	h.rec.Add(e)
}

// wrap records each start of work and its real end.
func (h *historyFile) wrap(work actors.Work) actors.Work {
	if h == nil || work == nil {
		return work
	}
	return func(ctx context.Context, item actors.Item) error {
		h.record(history.Event{Verb: history.Start, Item: item.ID, Token: item.Token})
		var end workEnd
		begun := time.Now()
		defer func() {
			h.recordStand(end.stoodFrom, end.stoodTo)
			if !end.ran.IsZero() {
				if end.ran.Before(begun) { // it ended at once
					end.ran = begun
				}
				h.record(history.Event{At: end.ran, Verb: history.Ran, Item: item.ID,
					Token: item.Token})
			}
			h.record(history.Event{At: end.at, Verb: history.Stop, Item: item.ID,
				Token: item.Token})
		}()
		return work(context.WithValue(ctx, endKey{}, &end), item)
	}
}

type endKey struct{}

// workEnd is what the guard tells of the end of a command. Zero: it told nothing.
type workEnd struct {
	ran, at            time.Time
	stoodFrom, stoodTo time.Time // the last time for which the guard stood still meanwhile
}

// ended notes between which times work really ended, if that was before its function could return:
// the guard ends the commands of a coordd that is frozen.
func ended(ctx context.Context, ran, at time.Time) {
	if end, ok := ctx.Value(endKey{}).(*workEnd); ok && at.Before(time.Now()) {
		end.ran, end.at = ran, at
	}
}

// stood notes for how long the guard of a command stood still.
func stood(ctx context.Context, from, to time.Time) {
	if end, ok := ctx.Value(endKey{}).(*workEnd); ok {
		end.stoodFrom, end.stoodTo = from, to
	}
}

// recordStand records, once, that this process stood still at the same time as its guard. Then the
// commands did so too: the host was suspended, or its container was frozen. Where one of the two
// went on, it ended the commands with the lease, and the time until then counts as work.
func (h *historyFile) recordStand(from, to time.Time) {
	if from.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused.check(time.Now())
	if from.Before(h.paused.from) {
		from = h.paused.from
	}
	if to.After(h.paused.to) {
		to = h.paused.to
	}
	if !from.Before(to) || !h.stood.Before(from) {
		return
	}
	h.stood = to
	h.record(history.Event{At: from, Verb: history.Freeze})
	h.record(history.Event{At: to, Verb: history.Thaw})
}

// begin records that the process runs, and returns the child that follows its leadership and its
// lease.
func (h *historyFile) begin(c *actors.Coordinator, log *slog.Logger) []supervisor.Child {
	if h == nil {
		return nil
	}
	h.proc = c.ID() + "#" + c.Settings().Process.Instance
	h.paused = pauseDetector{checked: time.Now(), limit: min(pauseLimit, c.Settings().Lease)}
	h.record(history.Event{Verb: history.Boot})
	return []supervisor.Child{{Name: "history", Run: func(ctx context.Context) error {
		return h.follow(ctx, c, log)
	}}}
}

func (h *historyFile) follow(ctx context.Context, c *actors.Coordinator, log *slog.Logger) error {
	leadership, session := c.Leadership().Subscribe(), c.Session().Subscribe()
	var epoch uint64
	var id string       // of the session
	var alive time.Time // when that was renewed, or led by, last
	told := false
	ticker := time.NewTicker(pauseCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			h.check(time.Now())
		case <-leadership.Changed():
			now := time.Now()
			h.check(now)
			l := leadership.Take()
			switch {
			case l.Role == facts.Leading && l.Epoch != epoch:
				h.record(history.Event{Verb: history.Lead, Epoch: l.Epoch})
				epoch, alive = l.Epoch, now
			case l.Role != facts.Leading && epoch != 0:
				if s := c.Session().Get(); s.Check != "" &&
					!s.Holds(now, c.Settings().LeaseMargin) {
					// Nothing came back for a lease. The session may have ended with the check
					// since, and another may lead.
					h.record(history.Event{At: alive, Verb: history.Early})
				}
				h.record(history.Event{At: h.pausedEnd(now), Verb: history.Unlead, Epoch: epoch})
				epoch = 0
			}
		case <-session.Changed():
			// with each renewal: work that is not seen to end counts up to the last of these
			s, now := session.Take(), time.Now()
			if s.ID != id && id != "" && now.Sub(alive) < c.Settings().Lease {
				// It ended before its lease, and another may lead since.
				h.record(history.Event{At: alive, Verb: history.Early})
			}
			id, alive = s.ID, now
			h.record(history.Event{Verb: history.Alive})
			if err := h.rec.Err(); err != nil && !told {
				told = true
				log.Error("history-broken-off", "err", err, "then",
					"nothing more is written to it, and the work goes on", "do",
					"make room, or give a file on a faster disk, and start this member anew")
			}
		}
	}
}

// check notes that this process runs at now.
func (h *historyFile) check(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused.check(now)
}

// pausedEnd returns when something ended of which this process hears at now.
func (h *historyFile) pausedEnd(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused.ended(now)
}

// close records that all is over, and returns what kept the history from being written.
func (h *historyFile) close() error {
	if h == nil {
		return nil
	}
	h.record(history.Event{Verb: history.End})
	flushed := h.rec.Flush(flushLimit)
	err := h.rec.Err()
	if !flushed && err == nil {
		err = history.ErrLost
	}
	if err = errors.Join(err, h.file.Close()); err != nil {
		return fmt.Errorf("--history: %w: not all is in it", err)
	}
	return nil
}
