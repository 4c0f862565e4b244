package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// historyFile records what one member does, for verify. A nil one records nothing.
type historyFile struct {
	file  *os.File
	lines *history.Queued // nobody waits for the file
	rec   *history.Recorder
	proc  string
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
	h := &historyFile{file: f}
	h.lines = history.NewQueued(f, func() string { return h.proc })
	h.rec = history.NewRecorder(h.lines)
	return h, nil
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
		var ended time.Time
		defer func() {
			h.record(history.Event{At: ended, Verb: history.Stop, Item: item.ID,
				Token: item.Token})
		}()
		return work(context.WithValue(ctx, endKey{}, &ended), item)
	}
}

type endKey struct{}

// ended records when work really ended, if that was before its function could return: the guard
// ends the commands of a coordd that is frozen.
func ended(ctx context.Context, at time.Time) {
	if end, ok := ctx.Value(endKey{}).(*time.Time); ok && at.Before(time.Now()) {
		*end = at
	}
}

// begin records that the process runs, and returns the child that follows its leadership and its
// lease.
func (h *historyFile) begin(c *actors.Coordinator, log *slog.Logger) []supervisor.Child {
	if h == nil {
		return nil
	}
	h.proc = c.ID() + "#" + c.Settings().Process.Instance
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
	paused := pauseDetector{checked: time.Now()}
	ticker := time.NewTicker(pauseCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			paused.check(time.Now())
		case <-leadership.Changed():
			now := time.Now()
			paused.check(now)
			l := leadership.Take()
			switch {
			case l.Role == messages.Leading && l.Epoch != epoch:
				h.record(history.Event{Verb: history.Lead, Epoch: l.Epoch})
				epoch, alive = l.Epoch, now
			case l.Role != messages.Leading && epoch != 0:
				if s := c.Session().Get(); s.Check != "" &&
					!s.Holds(now, c.Settings().LeaseMargin) {
					// Nothing came back for a lease. The session may have ended with the check
					// since, and another may lead.
					h.record(history.Event{At: alive, Verb: history.Early})
				}
				h.record(history.Event{At: paused.ended(now), Verb: history.Unlead, Epoch: epoch})
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
				then, do := "nothing more is written to it, and the work goes on",
					"make room, and start this member anew"
				if errors.Is(err, history.ErrLost) {
					then, do = "it goes on once it is read, and says what is missing",
						"read it, or give a file on a faster disk"
				}
				log.Error("history-broken-off", "err", err, "then", then, "do", do)
			}
		}
	}
}

// close records that all is over, and returns what kept the history from being written.
func (h *historyFile) close() error {
	if h == nil {
		return nil
	}
	h.record(history.Event{Verb: history.End})
	err := h.rec.Err()
	if !h.lines.Flush(flushLimit) && err == nil {
		err = fmt.Errorf("%w: it takes nothing", history.ErrLost)
	}
	if err = errors.Join(err, h.file.Close()); err != nil {
		return fmt.Errorf("--history: %w: not all is in it", err)
	}
	return nil
}
