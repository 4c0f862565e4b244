package configstore

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/internal/wal"
)

// refusals keeps the writes that were refused when nobody waited for them any more. Each stays in
// the log until its value is in the file: a full disk loses none.
type refusals struct {
	file    string // empty: there is no log, and so nothing was promised
	sync    func(*os.File) error
	named   bool // the file's name is on the disk
	unsaved []unsavedRefusal
	recent  []Conflict
	total   int
}

// unsavedRefusal is a refused write that is not in the file yet.
type unsavedRefusal struct {
	job      *job
	why      string
	reported bool
}

// Conflict is a write that was not applied, and that nobody was waiting for.
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

// count takes a write into what [Queue] says.
func (r *refusals) count(u *unsavedRefusal) {
	r.total++
	r.recent = append(r.recent, u.conflict())
	if n := len(r.recent); n > recentConflicts {
		r.recent = r.recent[n-recentConflicts:]
	}
}

// save appends a write to the file, with its values, for someone to look at: one line of JSON,
// whole or not at all.
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
		if last[0] != '\n' { // a machine that died has left a part of a line
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err = f.WriteAt(append(line, '\n'), size); err == nil {
		err = r.sync(f)
	}
	if err == nil && !r.named {
		err = wal.SyncDir(filepath.Dir(r.file), r.sync)
	}
	if err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	r.named = true
	return nil
}
