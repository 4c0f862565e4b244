package configstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/supervisor"
)

// librarian opens the log before anything is written and closes it after everything. What is in
// the log outlives the other actors, so it is here that it lives.
type librarian struct{ *house }

func (a *librarian) run(ctx context.Context) error {
	book, err := a.open()
	if err != nil {
		return supervisor.Escalate(fmt.Errorf("%w: %w", ErrLog, err))
	}
	a.book.Store(book)
	(&clerk{house: a.house}).publish(book) // what the log holds waits from now on
	if a.life.Load().ctx.Err() != nil {
		a.life.Store(newLife())
	}
	defer func() {
		if ctx.Err() != nil {
			a.life.Load().end()
		}
	}()
	defer func() {
		if book.wal != nil {
			_ = book.wal.Close() // nothing is buffered
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
	log, records, err := wal.Open(a.LogDir, wal.Options{MaxBytes: max})
	if err != nil {
		return nil, err
	}
	if b.first, err = readLog(records, a.keys.Service(), b.line); err == nil && b.first.ID == "" {
		b.first = record{Version: recordVersion, ID: a.Owner + "-" + newInstance(), Service: a.keys.Service(), Next: 1}
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

// refusals keeps the writes that were refused when nobody waited for them any more.
type refusals struct {
	file   string // empty: there is no log, and so nothing was promised
	recent []Conflict
	total  int
}

// Conflict is a write that was not applied, and that nobody was waiting for.
type Conflict struct {
	Write uint64    `json:"write"`
	Taken time.Time `json:"taken"` // when it was taken in
	Keys  []string  `json:"keys"`
	Error string    `json:"error"`
}

const recentConflicts = 20

// add keeps a write, with its values, for someone to look at.
func (r *refusals) add(j *job, why error) error {
	c := Conflict{Write: j.seq, Taken: j.taken, Error: why.Error()}
	for _, o := range j.ops {
		c.Keys = append(c.Keys, o.key)
	}
	r.total++
	r.recent = append(r.recent, c)
	if n := len(r.recent); n > recentConflicts {
		r.recent = r.recent[n-recentConflicts:]
	}
	if r.file == "" {
		return nil
	}
	line, err := json.Marshal(struct {
		Conflict
		Log json.RawMessage `json:"log"`
	}{c, j.record()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
