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

// Conflict is a write that is not known to be applied and whose caller had gone: others had changed
// its keys, or it was denied, or nobody can tell whether it was applied.
type Conflict struct {
	Write uint64    `json:"write"`
	Taken time.Time `json:"taken"` // when it was taken in
	Keys  []string  `json:"keys"`
	Error string    `json:"error"`
}

// recentConflicts is how many of them [Queue] names.
const recentConflicts = 20

// keep appends a refused write with its values to the file, for an operator to read: one line of
// JSON, written whole or not at all. The file and its directory are checked as those of the log are.
func (b *outboxState) keep(j *job) (err error) {
	c := Conflict{Write: j.number, Taken: j.taken, Error: j.refused}
	for _, o := range j.ops {
		c.Keys = append(c.Keys, o.key)
	}
	line, err := json.Marshal(struct {
		Conflict
		Log record `json:"log"`
	}{c, j.record()})
	if err != nil {
		return err
	}
	if err := wal.CheckDir(filepath.Dir(b.conflicts)); err != nil {
		return fmt.Errorf("log directory %s: %w", filepath.Dir(b.conflicts), err)
	}
	f, err := wal.OpenFile(b.conflicts, os.O_CREATE|os.O_RDWR)
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
		err = b.sync(f)
	}
	if err == nil && size == 0 {
		err = wal.SyncDir(filepath.Dir(b.conflicts), b.sync)
	}
	if err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	b.refused++
	b.recent = append(b.recent, c)
	b.recent = b.recent[max(0, len(b.recent)-recentConflicts):]
	return nil
}
