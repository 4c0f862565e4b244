//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Presence shows, to the guard process of a predecessor that died, that a process is there which will take over what
// that one had. It lasts until Leave, or the end of the process, however that comes.
type Presence struct {
	path string
	file *os.File
}

// presenceFile stands beside the lock file. Whoever is there holds a shared flock(2) on it; a guard process
// that wants to know tries an exclusive one, for a moment.
func presenceFile(lockFile string) string { return lockFile + ".here" }

// Attend makes this process visible at a lock file, where it will, or may, start a guard process. Call it before anything that takes
// time, CheckLockFile too: where there is no lock file there is no guard process to be seen by, and nothing is done. Any number
// of processes may attend. The error says what to do.
func Attend(lockFile string) (*Presence, error) {
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
			return nil, fmt.Errorf("guard: presence file: %s: %w: choose another directory", path, err)
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("guard: presence file: %s is locked by a process that does not let go: end it, or choose another directory", path)
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

// forget removes the file that a killed process left, if nobody attends.
func forget(lockFile string) {
	path := presenceFile(lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		(&Presence{path, f}).Leave()
	}
}

// attended reports whether a process is there. What cannot be found out counts as yes.
func attended(lockFile string) bool {
	f, err := os.OpenFile(presenceFile(lockFile), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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

// LeftNothing reports whether nothing runs any more that a guard process with that lock file had started. What a dead
// one left is killed first. It is for a process that takes over and has no guard process of its own.
func LeftNothing(lockFile string) bool {
	if _, err := os.Lstat(lockFile); errors.Is(err, os.ErrNotExist) {
		return true // it ended well, or there was none
	}
	l := locker{path: lockFile, token: newToken()}
	_, err := l.try()
	if f := l.file.Load(); f != nil {
		defer f.Close()
	}
	if err == nil {
		l.tidy()
	}
	return err == nil
}
