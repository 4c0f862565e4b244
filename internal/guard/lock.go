//go:build unix

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// lockEnv names the lock file to the guard process; commands do not see it.
	lockEnv = "COORDD_GUARD_LOCK"
	// lockOpenEnv says that lockFD is that file, open: see Guard.BindLock. lockOwnEnv says that no
	// other process will ever want it.
	lockOpenEnv = "COORDD_GUARD_LOCK_OPEN"
	lockOwnEnv  = "COORDD_GUARD_LOCK_OWN"
	lockFD      = eventsFD + 1
	// lockRetry is how soon a lock that has become free is noticed.
	lockRetry = 50 * time.Millisecond
	// lockRefresh keeps the file too young for those who tidy directories up.
	lockRefresh = time.Hour
	// sweepLimit is how long what a dead guard left has to die in one round.
	sweepLimit = 2 * time.Second
	// keptEnv lists the tokens of dead guard processes of the same owner of which it waits itself
	// for what does not die: see Guard.leave.
	keptEnv = "COORDD_GUARD_KEPT"
	// maxSigned is the most that sign writes: in bytes, for a dozen tokens.
	maxSigned = 1024
)

// errLockHeld: another guard process runs for the same lock file.
var errLockHeld = errors.New("the lock is held by another guard process")

// CheckHost reports whether commands can be guarded on this host. The error says what to do.
func CheckHost() error {
	if err := seesItself(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// CheckLockFile reports whether path can be Config.LockFile: it makes the file when there is none,
// with room for what guard processes write to it, and takes no lock. The error says what to do.
func CheckLockFile(path string) error {
	f, err := openLock(path)
	if err != nil {
		return fmt.Errorf("guard: lock file: %w", err)
	}
	defer f.Close()
	if err := reserve(f); err != nil {
		return fmt.Errorf("guard: lock file: %w: make room on that disk, or choose another "+
			"directory", err)
	}
	return nil
}

// reserve makes an empty file as long as what is written to it may be: on a disk that is full by
// then that is overwritten all the same. Whoever has the lock writes to it himself.
func reserve(f *os.File) error {
	if flock(f, syscall.LOCK_EX) != nil {
		return nil
	}
	defer func() { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }()
	if st, err := f.Stat(); err != nil || st.Size() > 0 {
		return err
	}
	_, err := f.WriteAt(bytes.Repeat([]byte{'\n'}, maxSigned), 0)
	return err
}

// openLock refuses what another user could have put there: the lock would be theirs to hold or to
// take away.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link: remove it, or choose another directory",
			path)
	case err != nil:
		return nil,
			fmt.Errorf("%w: choose a directory that this user may write to, and remove what is "+
				"there under that name",
				err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || int(st.Uid) != os.Geteuid() {
		return nil, errors.Join(
			fmt.Errorf("%s is not a plain file of user %d: remove it, or choose another directory",
				path, os.Geteuid()), f.Close())
	}
	return f, nil
}

// locker holds the lock until the commands are gone. Only the kernel unlocks it, at the end of the
// process, unless release does. Commands do not inherit the descriptor.
type locker struct {
	path, token string
	// the file to lock, whatever has its name by now; nil: the one that has the name
	open  *os.File
	bound bool                    // and the owner of this guard process has had its lock before
	own   bool                    // nobody else is to find the file
	file  atomic.Pointer[os.File] // not nil when the lock is held
	clean atomic.Bool             // and nothing is left of what former holders had started
	// tokens of those that held it before and did not end well, the last one first
	former []string
	kept   []string // of those the ones whose leftovers the owner of this guard process waits for
	// of this guard process, named as by a token; "" if not known
	owner string
	// process id of a holder that was killed for the lock; 0: none
	evicted int
	left    census // of what former holders had started
}

// newLocker takes from the environment what spawn has put there.
func newLocker() *locker {
	l := &locker{path: os.Getenv(lockEnv), token: newToken(), own: os.Getenv(lockOwnEnv) != "",
		owner: nameOf(os.Getppid(), "owner"), kept: strings.Fields(os.Getenv(keptEnv))}
	if os.Getenv(lockOpenEnv) != "" {
		syscall.CloseOnExec(lockFD)
		l.open, l.bound = os.NewFile(lockFD, l.path), true
	}
	for _, name := range []string{lockEnv, lockOpenEnv, lockOwnEnv, keptEnv} {
		_ = os.Unsetenv(name)
	}
	return l
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

// try takes the lock if it is free and kills what dead guards left; it returns how many processes
// that were. No error means that nothing runs any more that a former holder had started, but for
// what the owner of this guard process waits for itself: nothing at all where clean is true.
func (l *locker) try() (swept int, _ error) {
	if l.file.Load() == nil {
		f, err := l.take()
		if errors.Is(err, errLockHeld) {
			l.evict()
		}
		if err != nil {
			return 0, err
		}
		if l.former, _, err = signature(f); err != nil {
			if l.open == nil {
				err = errors.Join(err, f.Close())
			} else { // it is tried again
				_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			}
			return 0, fmt.Errorf("whose lock it was cannot be read: %w", err)
		}
		l.file.Store(f)
	}
	swept, kept, err := killMarked(&l.left, l.claim, slices.Concat(l.former, l.kept), sweepLimit)
	if err != nil {
		return swept, err
	}
	var more []string
	if kept {
		l.left, more = census{}, l.kept // it is looked for anew
	}
	if err := l.sign(more...); err != nil {
		return swept, fmt.Errorf("the next one could not tell whose processes these are: %w", err)
	}
	l.clean.Store(!kept)
	return swept, nil
}

// claim says what becomes of the processes of the guard that has that token. The former holders are
// dead, or they would hold the lock: their tokens need not be looked into. Other dead guards may
// have had this file without its lock, until the owner of this one had the lock; those after that
// are other members'.
func (l *locker) claim(token string) claim {
	switch {
	case slices.Contains(l.kept, token):
		return kept
	case slices.Contains(l.former, token):
		return awaited
	case !tokenDead(token):
		return none
	case l.bound:
		return bystander
	}
	return awaited
}

func (l *locker) take() (*os.File, error) {
	if l.open == nil {
		return flockNow(l.path)
	}
	err := flock(l.open, syscall.LOCK_EX)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLockHeld
	}
	return l.open, err
}

// evict kills the guard process that holds the lock if it is stopped (SIGSTOP) and its owner is
// dead. Its commands would run beyond every lease, and nobody else could end them. The lock is free
// when that process is gone.
func (l *locker) evict() {
	f := l.open
	if f == nil {
		var err error
		if f, err = openLock(l.path); err != nil {
			return
		}
		defer f.Close()
	}
	tokens, owner, err := signature(f)
	if err != nil || len(tokens) == 0 {
		return
	}
	if pid := frozen(tokens[0]); pid != 0 && tokenDead(owner) {
		_ = signalExactly(pid, syscall.SIGKILL, func() bool { return frozen(tokens[0]) == pid })
		l.evicted = pid
	}
}

// sign leaves this guard's token for the next one, which counts on it only if this one is killed,
// and names its owner; and the tokens of dead ones of which something is left.
func (l *locker) sign(more ...string) error {
	f, text := l.file.Load(), l.token+"\n"
	if l.owner != "" || len(more) > 0 {
		text += l.owner + "\n"
	}
	for _, token := range more {
		text += token + "\n"
	}
	if len(text) > maxSigned {
		return errors.New("more guard processes have left something than there is room for")
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}

// signature is what sign wrote; the owner is empty when an older version did.
func signature(f *os.File) (tokens []string, owner string, err error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxSigned))
	if err != nil {
		return nil, "", err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 1 {
		owner = lines[1]
		lines = slices.Delete(lines, 1, 2)
	}
	return slices.DeleteFunc(lines, func(token string) bool { return token == "" }), owner, nil
}

// keep goes on trying until nothing is left, tells once that it has the lock, and then keeps the
// file young. It never returns.
func (l *locker) keep(locked bool, emit func(event)) {
	for pause := lockRetry; !locked || !l.clean.Load(); {
		if locked {
			pause = sweepLimit
		}
		time.Sleep(pause)
		swept, err := l.try()
		switch {
		case err == nil && locked:
		case err == nil:
			locked = true
			emit(event{Kind: evLocked, Locked: true, LockID: fileID(l.file.Load()), Swept: swept,
				Evicted: l.evicted})
		case errors.Is(err, errLockHeld), errors.Is(err, errPassing):
			pause = lockRetry
		default:
			pause = sweepLimit // nothing that passes soon, and to look for leftovers is work
		}
	}
	for {
		time.Sleep(lockRefresh)
		_ = l.sign() // what it says is there already
	}
}

// flockNow takes the lock on the file that has the name now. One that was removed meanwhile is not
// it.
func flockNow(path string) (*os.File, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	err = flock(f, syscall.LOCK_EX)
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

// tidy removes the file, unless the next one is to read there of whom something is left. Call it
// when every command is gone, at the end of the process. A process that waits for this file finds
// that it has lost its name, and takes the next one.
func (l *locker) tidy() {
	if f := l.file.Load(); f != nil && l.clean.Load() && named(f, l.path) {
		_ = os.Remove(l.path)
	}
}

// release unlocks before the end of the process. Call it when every command is gone.
func (l *locker) release() {
	if f := l.file.Load(); f != nil {
		_ = f.Close()
	}
}
