package configstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/supervisor"
)

// librarian opens the log before anything is written and closes it after everything. What is in
// the log outlives the other actors, so it is here that it lives.
type librarian struct{ *shared }

func (a *librarian) run(ctx context.Context) error {
	book, err := a.open()
	if err != nil {
		return supervisor.Escalate(fmt.Errorf("%w: %w", ErrLog, err))
	}
	a.book.Store(book)
	(&clerk{shared: a.shared}).publish(book) // what the log holds waits from now on
	if a.life.Load().ctx.Err() != nil {
		a.life.Store(newLife())
	}
	defer func() {
		if book.wal != nil {
			_ = book.wal.Close() // nothing is buffered
		}
	}()
	defer func() { // before the disk is waited for
		if ctx.Err() != nil {
			a.life.Load().end()
		}
	}()
	supervisor.Ready(ctx)
	<-ctx.Done()
	return nil
}

func (a *librarian) open() (*openBook, error) {
	max := a.MaxLogBytes
	if max == 0 {
		max = wal.DefaultMaxBytes
	}
	// In memory a write takes less than in the log: what is in the line fits into it.
	b := &openBook{id: a.Owner, line: newLine(a.MaxPending, int(max/2)), notes: &refusals{}}
	if a.LogDir == "" {
		return b, nil
	}
	log, records, err := wal.Open(a.LogDir, wal.Options{MaxBytes: max, Sync: a.sync})
	if err != nil {
		return nil, err
	}
	if b.first, err = readLog(records, a.keys.Service(), b.line, b.notes); err == nil &&
		b.first.ID == "" {
		b.first = firstRecord(a.Owner, a.keys.Service())
		err = log.Append(encodeRecord(b.first))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", a.LogDir, err), log.Close())
	}
	b.wal, b.id, b.used = log, b.first.ID, b.line.next > 1
	b.notes.file = filepath.Join(a.LogDir, "conflicts")
	if n := len(b.line.jobs); n > 0 {
		a.log.Info("config-log-replayed", "writes", n, "dir", a.LogDir)
	}
	return b, nil
}
