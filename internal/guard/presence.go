//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Presence tells the guard process of a predecessor that died: a successor is here and takes over
// what the dead process had. It lasts until Leave, or until this process ends in any way.
type Presence struct {
	path string
	file *os.File
}

// presenceFile is the path of a file beside the lock file. A process that is present holds a shared
// flock(2) on it. A guard process that wants to know tries an exclusive one, for a moment.
func presenceFile(lockFile string) string { return lockFile + ".here" }

// Announce makes this process present at a lock file, where it will, or may, start a guard process.
// Call it before anything that takes time, CheckLockFile too. If there is no lock file, there is no
// guard process to tell, and nothing is done. Any number of processes may be present. The error
// says what to do.
func Announce(lockFile string) (*Presence, error) {
	if _, err := os.Lstat(lockFile); errors.Is(err, os.ErrNotExist) {
		return &Presence{}, nil
	}
	path := presenceFile(lockFile)
	for range 1000 { // each round that fails is a moment of another process
		f, err := openLock(path)
		if err != nil {
			return nil, fmt.Errorf("guard: presence file: %w", err)
		}
		err = flock(f, syscall.LOCK_SH)
		if err == nil && named(f, path) {
			return &Presence{path, f}, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("guard: presence file: %s: %w: choose another directory", path,
				err)
		}
		time.Sleep(time.Millisecond)
	}
	return nil,
		fmt.Errorf("guard: presence file: %s is locked by a process that does not let go: end "+
			"it, or choose another directory",
			path)
}

// Leave ends the presence. The file goes with the last one.
func (p *Presence) Leave() {
	if p.file == nil {
		return
	}
	if flock(p.file, syscall.LOCK_EX) == nil && named(p.file, p.path) {
		_ = os.Remove(p.path)
	}
	p.file.Close()
}

// removePresence removes the file that a killed process left, if nobody is present.
func removePresence(lockFile string) {
	path := presenceFile(lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		(&Presence{path, f}).Leave()
	}
}

// RemoveFree removes the lock files in dir whose names begin with prefix and which no guard process
// holds: one that was killed has left them. It is for files that nobody will look for, see
// Config.OwnLock. A guard process that is about to lock one makes it anew.
func RemoveFree(dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK,
			0); err == nil {
			(&Presence{path, f}).Leave()
		}
	}
}

// successorPresent reports whether a process is present. What cannot be found out counts as yes.
func successorPresent(lockFile string) bool {
	f, err := os.OpenFile(presenceFile(lockFile), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK,
		0)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	return flock(f, syscall.LOCK_EX) != nil
}

// flock does not wait for the lock.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// LeftNothing reports whether nothing runs any more that a guard process had started which held the
// lock with that LockID, on that lock file. What a dead one left is killed first, and the file is
// removed. It is for a process that takes over and has no guard process of its own. It is false
// when the file is another one or is not there: then nothing is known, and asking again will not
// help.
func LeftNothing(lockFile, lockID string) bool {
	f, err := os.OpenFile(lockFile, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if lockID == "" || fileID(f) != lockID {
		return false
	}
	l := locker{path: lockFile, token: newToken(), open: f}
	if _, err := l.try(); err != nil {
		return false
	}
	l.tidy()
	return true
}
