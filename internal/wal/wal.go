package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

var (
	// ErrInUse is returned by [Open] when another process has the directory open.
	ErrInUse = errors.New("the log is in use by another process")
	// ErrDamaged is returned by [Open] when records before the last one do not read. Nothing was changed.
	ErrDamaged = errors.New("the log is damaged")
	// ErrFull is returned by [Log.Append] when there is no room. Nothing was written.
	ErrFull = errors.New("the log is full")
	// ErrBroken is returned once a write could not be undone or an fsync failed: [Log.Rewrite] it or open it anew.
	ErrBroken = errors.New("the log is broken")
)

// The files of a log's directory.
const (
	fileName = "log"
	nextName = "log.new"
	lockName = "lock"
)

// DefaultMaxBytes is Options.MaxBytes where that is 0, MaxMaxBytes the largest that it may be.
const (
	DefaultMaxBytes = 64 << 20
	MaxMaxBytes     = 1 << 30
)

// Options of a log. The zero value is usable.
type Options struct {
	MaxBytes int64 // of the file; default 64 MiB
}

// Log is an open log. It is safe for concurrent use.
type Log struct {
	dir  string
	max  int64
	lock *os.File

	mu     sync.Mutex
	file   *os.File
	size   int64
	synced int64 // of it
	broken error
	closed bool
}

// Open opens the log in dir, which is made when it does not exist, and returns its
// records. Errors: [ErrInUse], [ErrDamaged], and those of the file system.
func Open(dir string, o Options) (*Log, [][]byte, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, MaxMaxBytes)
	// Values may be secrets: nobody else is to read them.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("log directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, nil, fmt.Errorf("log directory %s: %w", dir, err)
	}
	l := &Log{dir: dir, max: o.MaxBytes, lock: lock}
	records, err := l.load()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("log directory %s: %w", dir, err), l.Close())
	}
	return l, records, nil
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

func (l *Log) load() ([][]byte, error) {
	if err := os.Remove(l.path(nextName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // a Rewrite that was interrupted
	}
	data, err := os.ReadFile(l.path(fileName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, l.Rewrite()
	}
	if err != nil {
		return nil, err
	}
	records, good, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: move %s away to begin anew, and see in it what was not written to Consul", err, l.path(fileName))
	}
	if good == 0 {
		return nil, l.Rewrite()
	}
	if l.file, err = os.OpenFile(l.path(fileName), os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := l.cutTo(int64(good)); err != nil {
		return nil, err
	}
	// What a predecessor had not brought to the disk is read again here, and counts from now on.
	if err := l.file.Sync(); err != nil {
		return nil, err
	}
	l.synced = l.size
	return records, nil
}

func (l *Log) cutTo(size int64) error {
	if err := l.file.Truncate(size); err != nil {
		return err
	}
	l.size = size
	return nil
}

// Append adds records, all or none of them, and returns when they are on the disk.
// Errors: [ErrFull], [ErrBroken], and those of the file system, after which nothing was appended.
func (l *Log) Append(records ...[]byte) error {
	return l.add(true, true, records)
}

// Note adds a record that matters less: it survives the end of the process, and that of the
// machine only if an Append or Rewrite followed. It is allowed a little over the log's bound. Errors as for Append.
func (l *Log) Note(record []byte) error {
	return l.add(false, false, [][]byte{record})
}

// NoteSynced is Note, and returns when the record is on the disk.
func (l *Log) NoteSynced(record []byte) error {
	return l.add(true, false, [][]byte{record})
}

func (l *Log) add(durable, bounded bool, records [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := frames(nil, records, l.synced)
	if err != nil {
		return err
	}
	switch {
	case l.broken != nil:
		return l.broken
	case bounded && l.size+int64(len(b)) > l.max:
		return fmt.Errorf("%w: %d of %d bytes are taken", ErrFull, l.size, l.max)
	}
	if _, err = l.file.WriteAt(b, l.size); err != nil {
		if undo := l.file.Truncate(l.size); undo != nil {
			l.broken = fmt.Errorf("%w: %w; and it cannot be undone: %w", ErrBroken, err, undo)
			return l.broken
		}
		return fmt.Errorf("nothing was logged: %w", err)
	}
	if durable {
		if err := l.file.Sync(); err != nil {
			l.broken = fmt.Errorf("%w: %w", ErrBroken, err)
			return l.broken
		}
	}
	l.size += int64(len(b))
	if durable {
		l.synced = l.size
	}
	return nil
}

func frames(b []byte, records [][]byte, synced int64) ([]byte, error) {
	for _, r := range records {
		if len(r) > MaxRecord {
			return nil, fmt.Errorf("%w: a record of %d bytes; at most %d", ErrFull, len(r), MaxRecord)
		}
		b = appendFrame(b, r, synced)
	}
	return b, nil
}

// Rewrite replaces everything by records. Errors as for Append; the log is then as it was. After it a broken
// log is a good one: what the disk holds is known again.
func (l *Log) Rewrite(records ...[]byte) error {
	b, err := frames([]byte(head), records, 0)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.broken
	}
	f, err := os.OpenFile(l.path(nextName), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(l.path(nextName), l.path(fileName))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(l.path(nextName)))
	}
	if l.file != nil {
		_ = l.file.Close() // of the file that is no more
	}
	l.file, l.size, l.synced, l.broken = f, int64(len(b)), int64(len(b)), nil
	if err := syncDir(l.dir); err != nil {
		l.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		return l.broken
	}
	return nil
}

// Size is the size of the file in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Close gives the directory free. Nothing is written by it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	l.broken, l.closed = fmt.Errorf("%w: it was closed", ErrBroken), true
	return errors.Join(err, l.lock.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
