package configstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/internal/wal"
)

// refusals keeps the writes that were refused after their callers had gone. Each stays in the log
// until its value is in the file, so a full disk loses none.
type refusals struct {
	file    string // empty: there is no log
	sync    func(*os.File) error
	unsaved []unsavedRefusal
	failed  error // why they are
	recent  []Conflict
	total   int
}

// unsavedRefusal is a refused write that is not in the file yet.
type unsavedRefusal struct {
	job      *job
	why      string
	reported bool
}

// Conflict is a write that was not applied and whose caller had gone: others had changed its keys,
// or it was denied for [DeniedLimit].
type Conflict struct {
	Write uint64    `json:"write"`
	Taken time.Time `json:"taken"` // when it was taken in
	Keys  []string  `json:"keys"`
	Error string    `json:"error"`
}

const recentConflicts = 20

func (u *unsavedRefusal) conflict() Conflict {
	c := Conflict{Write: u.job.seq, Taken: u.job.taken, Error: u.why}
	for _, o := range u.job.ops {
		c.Keys = append(c.Keys, o.key)
	}
	return c
}

// count adds a write to what [Queue] reports.
func (r *refusals) count(u *unsavedRefusal) {
	r.total++
	r.recent = append(r.recent, u.conflict())
	if n := len(r.recent); n > recentConflicts {
		r.recent = r.recent[n-recentConflicts:]
	}
}

// save appends a write with its values to the file, for an operator to read. It is one line of
// JSON, written whole or not at all. The file and its directory are looked at as those of the log
// are: a line in a file that was moved away meanwhile is written again, into the one at the path.
func (r *refusals) save(u *unsavedRefusal) (err error) {
	if r.file == "" {
		return nil
	}
	line, err := json.Marshal(struct {
		Conflict
		Log json.RawMessage `json:"log"`
	}{u.conflict(), u.job.record()})
	if err != nil {
		return err
	}
	dir := filepath.Dir(r.file)
	if err := wal.CheckDir(dir); err != nil {
		return fmt.Errorf("log directory %s: %w", dir, err)
	}
	f, err := wal.OpenFile(r.file, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if last := make([]byte, 1); size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' { // a machine that died left a part of a line
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err = f.WriteAt(append(line, '\n'), size); err == nil {
		err = r.sync(f)
	}
	if err == nil { // each time: somebody may have moved the file away
		err = wal.SyncDir(dir, r.sync)
	}
	if err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return wal.CheckInPlace(f, r.file)
}
