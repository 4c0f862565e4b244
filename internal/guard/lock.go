//go:build unix

package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// lockEnv names the lock file to the guard process; commands do not see it.
	lockEnv = "COORDD_GUARD_LOCK"
	// lockRetry is how soon a lock that has become free is noticed.
	lockRetry = 50 * time.Millisecond
	// lockRefresh keeps the file too young for those who tidy directories up.
	lockRefresh = time.Hour
	// sweepLimit is how long what a dead guard left has to die in one round.
	sweepLimit = 2 * time.Second
	// maxToken is more than newToken returns.
	maxToken = 256
)

// errLockHeld: another guard process runs for the same lock file.
var errLockHeld = errors.New("the lock is held by another guard process")

// CheckLockFile reports whether path can be Config.LockFile: it makes the file when there is none, and
// takes no lock. The error says what to do.
func CheckLockFile(path string) error {
	f, err := openLock(path)
	if err != nil {
		return fmt.Errorf("guard: lock file: %w", err)
	}
	return f.Close()
}

// openLock refuses what another user could have put there: the lock would be theirs to hold or to take away.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link: remove it, or choose another directory", path)
	case err != nil:
		return nil, fmt.Errorf("%w: choose a directory that this user may write to, and remove what is there under that name", err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || int(st.Uid) != os.Geteuid() {
		return nil, errors.Join(fmt.Errorf("%s is not a plain file of user %d: remove it, or choose another directory", path, os.Geteuid()), f.Close())
	}
	return f, nil
}

// locker holds the lock for as long as its process lives. Nothing unlocks it but the kernel, at the end of the process:
// commands do not inherit the descriptor, and a killed guard cannot forget it.
type locker struct {
	path, token string
	file        atomic.Pointer[os.File] // not nil when the lock is held
	clean       atomic.Bool             // and nothing is left of what former holders had started
	previous    string                  // token of the guard that held it before and did not end well; "" if none
}

// try takes the lock if it is free and kills what dead guards left; it returns how many processes that were. No error
// means that nothing runs any more that a former holder had started.
func (l *locker) try() (swept int, _ error) {
	if l.file.Load() == nil {
		f, err := flockNow(l.path)
		if err != nil {
			return 0, err
		}
		if b, err := io.ReadAll(io.LimitReader(f, maxToken)); err == nil {
			l.previous = strings.TrimSpace(string(b))
		}
		l.file.Store(f)
	}
	// The former holder is dead, or it would hold the lock: its token need not be looked into.
	swept, left := killMarked(func(token string) bool { return token == l.previous || tokenDead(token) }, sweepLimit)
	if left > 0 {
		return swept, fmt.Errorf("%d processes that dead guards left do not die", left)
	}
	l.sign()
	l.clean.Store(true)
	return swept, nil
}

// sign leaves this guard's token for the next one; it counts on it only if this one is killed.
func (l *locker) sign() {
	f := l.file.Load()
	if _, err := f.WriteAt([]byte(l.token+"\n"), 0); err == nil {
		_ = f.Truncate(int64(len(l.token) + 1))
	}
}

// keep goes on trying, tells once, and then keeps the file young. It never returns.
func (l *locker) keep(locked bool, emit func(event)) {
	for pause := lockRetry; !locked; {
		time.Sleep(pause)
		swept, err := l.try()
		switch {
		case err == nil:
			locked = true
			emit(event{Kind: evLocked, Locked: true, Swept: swept})
		case errors.Is(err, errLockHeld):
			pause = lockRetry
		default:
			pause = sweepLimit // nothing that passes soon, and to look for leftovers is work
		}
	}
	for {
		time.Sleep(lockRefresh)
		l.sign()
	}
}

// flockNow takes the lock on the file that has the name now. One that was removed meanwhile is not it.
func flockNow(path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLockHeld
	}
	if err == nil && !named(f, path) {
		err = errLockHeld // perhaps: the next try opens the new one
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// named reports whether path is the name of f.
func named(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// tidy removes the file: call it when every command is gone, at the end of the process. Who waits for this very file finds that
// it has lost its name, and takes the next.
func (l *locker) tidy() {
	if f := l.file.Load(); f != nil && named(f, l.path) {
		_ = os.Remove(l.path)
	}
}
