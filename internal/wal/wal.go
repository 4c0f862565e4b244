package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

var (
	// ErrInUse is returned by [Open] when another process has the directory open.
	ErrInUse = errors.New("the log is in use by another process")
	// ErrDamaged is returned by [Open] when records before the last one do not read. Nothing was
	// changed.
	ErrDamaged = errors.New("the log is damaged")
	// ErrFull is returned by [Log.Append] when there is no room. Nothing was written.
	ErrFull = errors.New("the log is full")
	// ErrBroken is returned once a write could not be undone or an fsync failed: [Log.Rewrite] it
	// or open it anew.
	ErrBroken = errors.New("the log is broken")
	// ErrUncertain is returned, with ErrBroken, when the disk may hold the records or not.
	ErrUncertain = errors.New("the disk may hold it")
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
	// Sync brings a file to the disk: for tests of a disk that fails. Default: fsync.
	Sync func(*os.File) error
}

// Log is an open log. It is safe for concurrent use.
type Log struct {
	dir  string
	max  int64
	sync func(*os.File) error

	mu     chanMutex
	lock   *os.File
	file   *os.File
	size   int64
	synced int64 // of it
	broken error
	closed bool
}

// chanMutex is a mutex that synctest knows a goroutine to wait for, unlike a sync.Mutex: it is held
// while the disk is busy.
type chanMutex chan struct{}

func (m chanMutex) Lock()   { m <- struct{}{} }
func (m chanMutex) Unlock() { <-m }

// Open opens the log in dir, which is made when it does not exist, and returns its
// records. Errors: [ErrInUse], [ErrDamaged], and those of the file system.
func Open(dir string, o Options) (*Log, [][]byte, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, MaxMaxBytes)
	if o.Sync == nil {
		o.Sync = (*os.File).Sync
	}
	dir, err := filepath.Abs(dir) // the process may change to another one
	if err != nil {
		return nil, nil, fmt.Errorf("log directory: %w", err)
	}
	if err := makeDir(dir, o.Sync); err != nil {
		return nil, nil, err
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, nil, fmt.Errorf("log directory %s: %w", dir, err)
	}
	l := &Log{dir: dir, max: o.MaxBytes, sync: o.Sync, lock: lock, mu: make(chanMutex, 1)}
	records, err := l.load()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("log directory %s: %w", dir, err), l.Close())
	}
	return l, records, nil
}

// OpenFile opens a file beside a log, which nobody else may read. It follows no symbolic link, and
// opens nothing that is no regular file: a reader or writer of a pipe may wait for ever.
func OpenFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|cautious, 0o600)
	if isLink(err) {
		return nil, fmt.Errorf("%w: it is a symbolic link: move it away", err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path,
			Err: errors.New("it is no regular file: move it away")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Dir is the log's directory, as an absolute path.
func (l *Log) Dir() string { return l.dir }

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

func (l *Log) load() ([][]byte, error) {
	f, err := OpenFile(l.path(fileName), os.O_RDWR)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		l.file = f
	}
	if err := os.Remove(l.path(nextName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // a Rewrite that was interrupted
	}
	if l.file == nil {
		return nil, l.Rewrite()
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	records, good, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf(
			"%w: move %s away to begin anew, and see in it what was not written to Consul", err,
			l.path(fileName))
	}
	if err := l.cutTo(int64(good)); err != nil {
		return nil, err
	}
	// What a predecessor had not brought to the disk is read again here, and counts from now on.
	if err := l.sync(l.file); err != nil {
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

// Append adds records, all or none of them, and returns when they are on the disk. Errors:
// [ErrFull], [ErrBroken], with it [ErrUncertain], and those of the file system. Only after
// ErrUncertain something may have been appended.
func (l *Log) Append(records ...[]byte) error {
	return l.add(true, true, records)
}

// Note adds a record that matters less, for which the log may be a little over its bound. If synced
// is false, the record survives the end of the process, and that of the machine only if something
// that is synced followed. Errors as for Append.
func (l *Log) Note(record []byte, synced bool) error {
	return l.add(synced, false, [][]byte{record})
}

func (l *Log) add(durable, bounded bool, records [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := encodeRecords(nil, records, l.synced)
	if err != nil {
		return err
	}
	switch {
	case l.broken != nil:
		return fmt.Errorf("nothing was logged: %w", l.broken)
	case bounded && l.size+int64(len(b)) > l.max:
		return fmt.Errorf("%w: %d of %d bytes are taken", ErrFull, l.size, l.max)
	}
	if _, err = l.file.WriteAt(b, l.size); err != nil {
		if undo := l.file.Truncate(l.size); undo != nil {
			l.broken = fmt.Errorf("%w: %w; and it cannot be undone: %w", ErrBroken, err, undo)
			return fmt.Errorf("%w: %w", ErrUncertain, l.broken)
		}
		return fmt.Errorf("nothing was logged: %w", err)
	}
	if durable {
		if err := l.sync(l.file); err != nil {
			l.broken = fmt.Errorf("%w: %w", ErrBroken, err)
			_ = l.file.Truncate(l.size) // so that it is not found when only the process ends
			return fmt.Errorf("%w: %w", ErrUncertain, l.broken)
		}
	}
	l.size += int64(len(b))
	if durable {
		l.synced = l.size
	}
	return nil
}

func encodeRecords(b []byte, records [][]byte, synced int64) ([]byte, error) {
	for _, r := range records {
		if len(r) > MaxRecord {
			return nil, fmt.Errorf("%w: a record of %d bytes; at most %d", ErrFull, len(r),
				MaxRecord)
		}
		b = appendFrame(b, r, synced)
	}
	return b, nil
}

// Rewrite replaces everything by records. Errors as for Append. The log is then as it was, unless
// the error is [ErrUncertain]: then it is either. After it a broken log is a good one: what the disk
// holds is known again.
func (l *Log) Rewrite(records ...[]byte) error {
	b, err := encodeRecords([]byte(fileHeader), records, 0)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.broken
	}
	f, err := OpenFile(l.path(nextName), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = l.sync(f)
	}
	if err == nil {
		err = os.Rename(l.path(nextName), l.path(fileName))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(l.path(nextName)))
	}
	old := l.file
	l.file, l.size, l.synced, l.broken = f, int64(len(b)), int64(len(b)), nil
	if old != nil {
		_ = old.Close() // of the file that is no more
	}
	if err := SyncDir(l.dir, l.sync); err != nil {
		l.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		return fmt.Errorf("%w: %w", ErrUncertain, l.broken)
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

// makeDir makes a directory where there is none, and those that it is in, and brings to the disk
// that they are there: a record that was fsynced is lost with a directory that was not. Values may
// be secrets: nobody else is to read them. It refuses what [CheckDir] does.
func makeDir(dir string, sync func(*os.File) error) error {
	missing, err := makeDirs(dir)
	if err != nil {
		return fmt.Errorf("log directory %s: %w", dir, err)
	}
	if len(missing) == 0 {
		_ = SyncDir(filepath.Dir(dir), sync) // its maker may have died at once
	}
	for _, at := range missing {
		if err := SyncDir(filepath.Dir(at), sync); err != nil {
			return fmt.Errorf("log directory %s: %w", dir, err)
		}
	}
	return nil
}

// SyncDir brings to the disk which files are in a directory.
func SyncDir(dir string, sync func(*os.File) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(sync(d), d.Close())
}
