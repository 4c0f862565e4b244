//go:build unix

package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// lockRetry is how soon a lock that has become free is noticed.
	lockRetry = 50 * time.Millisecond
	// lockRefresh keeps the file too young for those who tidy directories up.
	lockRefresh = time.Hour
	// cgroupDies is how long what a dead guard process left has to die in one look.
	cgroupDies = 2 * time.Second
)

// errLockHeld: another guard process, or its owner, runs for the same lock file.
var errLockHeld = errors.New("the lock is held by another guard process")

// CheckLockFile reports whether path can be Config.LockFile: it makes the file when there is none,
// and takes no lock. The error says what to do.
func CheckLockFile(path string) error {
	f, err := openLock(path)
	if err != nil {
		return fmt.Errorf("guard: lock file: %w", err)
	}
	return f.Close()
}

// openLock refuses what another user could have put there: the lock would be theirs to hold or to
// take away.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: remove what is there under that name, or choose a directory "+
			"that this user may write to", err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil ||
		st.Mode&syscall.S_IFMT != syscall.S_IFREG || int(st.Uid) != os.Geteuid() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a plain file of user %d: remove it, or "+
			"choose a directory of this user", path, os.Geteuid()))
	}
	return f, nil
}

// fileID names the file that is open, on this host until its next start: as long as any process has
// it open, no other file has the same. Empty: it cannot be told.
func fileID(f *os.File) string {
	var st syscall.Stat_t
	if f == nil || syscall.Fstat(int(f.Fd()), &st) != nil {
		return ""
	}
	return fmt.Sprintf("%x.%x.%d", st.Dev, st.Ino, st.Uid)
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

// locker takes the lock in the guard process. The open file is the owner's as well, so that the
// kernel frees the lock only when both are gone. The file holds the directory of the holder's
// cgroups: the next holder kills what is left in there.
type locker struct {
	path   string
	file   *os.File
	cgroup string // of this guard process; empty: none
	held   atomic.Bool
}

// try takes the lock if it is free, and kills what a former holder left in its cgroups. No error
// means that nothing is left there.
func (l *locker) try() error {
	err := flock(l.file, syscall.LOCK_EX)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLockHeld
	}
	if err == nil {
		err = clearFormer(l.file)
	}
	if err != nil {
		return err
	}
	if err := l.sign(); err != nil {
		return fmt.Errorf("the next one could not tell whose processes these are: %w", err)
	}
	l.held.Store(true)
	return nil
}

// sign writes over what is there, and cuts off the rest: a full disk takes nothing from the file.
func (l *locker) sign() error {
	n, err := l.file.WriteAt([]byte(l.cgroup+"\n"), 0)
	if err == nil {
		err = l.file.Truncate(int64(n))
	}
	return err
}

// clearFormer kills what is left in the cgroups that the lock file names.
func clearFormer(f *os.File) error {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil {
		return fmt.Errorf("whose lock it was cannot be read: %w", err)
	}
	dir := strings.TrimSpace(string(b))
	if !strings.HasPrefix(filepath.Base(dir), cgroupPrefix) {
		return nil // its holder had none
	}
	killCgroup(dir)
	for end := time.Now().Add(cgroupDies); populated(dir); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("processes that a dead guard process left in %s do not die", dir)
		}
	}
	removeCgroup(dir)
	return nil
}

// keep goes on trying until it has the lock, tells so, and then keeps the file young. It never
// returns.
func (l *locker) keep(emit func(event)) {
	for !l.held.Load() {
		time.Sleep(lockRetry)
		if l.try() == nil {
			emit(event{Kind: evLocked, Locked: true})
		}
	}
	for {
		time.Sleep(lockRefresh)
		_ = l.sign()
	}
}

// LeftNothing reports whether nothing runs any more that an owner had started which held the lock
// with that LockID, on that lock file. What it left in its cgroups is killed first. It is for a
// process that takes over and has no guard process of its own. It is false when the file is another
// one or is not there: then nothing is known, and asking again will not help.
func LeftNothing(lockFile, lockID string) bool {
	f, err := os.OpenFile(lockFile, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return lockID != "" && fileID(f) == lockID && flock(f, syscall.LOCK_EX) == nil &&
		clearFormer(f) == nil
}

// Presence tells the guard process of a predecessor that died: a successor is here and takes over
// what the dead process had. It lasts until Leave, or until this process ends in any way.
type Presence struct{ file *os.File }

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
	f, err := openLock(presenceFile(lockFile))
	if err != nil {
		return nil, fmt.Errorf("guard: presence file: %w", err)
	}
	for range 1000 { // each round that fails is a moment of another process
		if err = flock(f, syscall.LOCK_SH); err == nil {
			return &Presence{f}, nil
		}
		time.Sleep(time.Millisecond)
	}
	f.Close()
	return nil, fmt.Errorf("guard: presence file: %s: %w: end the process that has locked it, or "+
		"choose another directory", presenceFile(lockFile), err)
}

// Leave ends the presence.
func (p *Presence) Leave() {
	if p.file != nil {
		p.file.Close()
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
