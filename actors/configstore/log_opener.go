package configstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/supervisor"
)

// logOpener opens and replays the log before the other actors start and closes it after they have
// stopped. The queue outlives their restarts.
type logOpener struct{ *shared }

func (a *logOpener) run(ctx context.Context) error {
	opened, err := a.open()
	if err != nil {
		a.lifetime.Load().end() // nobody waits for a store that does not begin
		return supervisor.Escalate(fmt.Errorf("%w: %w", ErrLog, err))
	}
	a.claim.Set(claim{}) // write numbers may begin anew, so the writer reads the marker first
	a.denied.Set(denial{})
	a.openLog.Store(opened)
	(&writeQueue{shared: a.shared}).publish(opened) // what the log holds waits from now on
	if a.lifetime.Load().ctx.Err() != nil {
		a.lifetime.Store(newLifetime())
	}
	defer func() {
		if opened.wal != nil {
			_ = opened.wal.Close() // nothing is buffered
		}
	}()
	defer func() { // runs before the disk is waited for
		if ctx.Err() != nil {
			a.lifetime.Load().end()
		}
	}()
	defer noteRunning(a.Process.Instance)()
	supervisor.Ready(ctx)
	<-ctx.Done()
	return nil
}

func (a *logOpener) open() (*openLog, error) {
	max := a.MaxLogBytes
	if max == 0 {
		max = wal.DefaultMaxBytes
	}
	// A write takes less in memory than in the log, so the log's bound suffices for the queue.
	b := &openLog{id: a.Owner, queue: newJobQueue(a.MaxPending, int(max/2)), refusals: &refusals{}}
	if a.LogDir == "" {
		return b, nil
	}
	log, records, err := wal.Open(a.LogDir, wal.Options{MaxBytes: max, Sync: a.sync})
	if err != nil {
		return nil, err
	}
	if b.first, err = replayLog(records, a.keys.Service(), b.queue, b.refusals); err == nil &&
		b.first.ID == "" {
		b.first = firstRecord(a.Owner, a.keys.Service())
		err = log.Append(encodeRecord(b.first))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", a.LogDir, err), log.Close())
	}
	b.wal, b.id, b.last = log, b.first.ID, b.queue.next-1
	b.refusals.file, b.refusals.sync = filepath.Join(log.Dir(), "conflicts"), a.sync
	if a.sync == nil {
		b.refusals.sync = (*os.File).Sync
	}
	if n := len(b.queue.jobs); n > 0 {
		a.log.Info("config-log-replayed", "writes", n, "dir", log.Dir())
	}
	return b, nil
}
