//go:build linux

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// locking is a guard with a lock file; up says whether it was locked when it came up.
func locking(t *testing.T, file string) (f *fixture, up <-chan bool) {
	t.Helper()
	must(t, guard.CheckLockFile(file))
	locked := make(chan bool, 10)
	var g *guard.Guard
	ready := make(chan struct{})
	f = start(t, guard.Config{LockFile: file, Up: func(context.Context) {
		<-ready
		locked <- g.LockID() != ""
	}})
	g = f.g
	close(ready)
	return f, locked
}

// locked waits until the guard process has its lock. Where many processes begin and end, the look
// for what its predecessors have left takes longer than Up waits for.
func (f *fixture) locked() {
	f.t.Helper()
	testkit.Eventually(f.t, "the lock", func() bool { return f.g.LockID() != "" })
}

func lockOwner(t *testing.T, file, command string) *owner {
	t.Helper()
	t.Setenv(lockEnv, file)
	return startOwner(t, command)
}

func TestAFreeLockIsHeldOnceTheGuardIsUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	begun := time.Now()
	f, up := locking(t, file)
	if !within(t, "up", up) && time.Since(begun) < guard.SweepLimit {
		t.Error("not locked")
	}
	f.locked()
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if f.g.LockID() != "" {
		t.Error("locked without a guard process")
	}
	if _, err := os.Lstat(file); !os.IsNotExist(err) {
		t.Errorf("the lock file after a clean end: %v, want none", err)
	}
}

// fileID is what a lock on file is called.
func fileID(t *testing.T, file string) string {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Stat(file, &st))
	return fmt.Sprintf("%x.%x.%d", st.Dev, st.Ino, st.Uid)
}

func TestALockIsNamedByItsFileAndNotByItsPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	first, _ := locking(t, file)
	first.locked()
	id := fileID(t, file)
	// As one does who tidies a directory up.
	must(t, os.Remove(file))
	second, _ := locking(t, file)
	second.locked()
	if got := first.g.LockID(); got != id {
		t.Errorf("the first holds %q, want %q", got, id)
	}
	if got := second.g.LockID(); got != fileID(t, file) || got == id {
		t.Errorf("the second holds %q, want %q and not %q", got, fileID(t, file), id)
	}
	if got := first.g.BindLock(); got != "" {
		t.Errorf("bound to %q, which nobody can find any more", got)
	}
	if got := second.g.BindLock(); got != second.g.LockID() {
		t.Errorf("bound to %q, want %q", got, second.g.LockID())
	}
}

// Others have been told that nothing is left once they hold this lock.
func TestABoundGuardStartsNothingUnderAnotherLock(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed %v", removed), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lock")
			f, ran := startMortal(t, guard.Config{LockFile: file})
			g := f.g
			id, other := killBound(t, f, ran, file)
			// What is written meanwhile stays, perhaps for long: it must not say less than what was
			// written before.
			if got := g.BindLock(); got != id {
				t.Errorf("between two guard processes it is bound to %q, want %q", got, id)
			}

			// Somebody is quicker than the next guard process.
			must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
			if removed {
				must(t, os.Remove(file))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran = f.run(ctx)
			ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "true"})
			select {
			case err := <-ended:
				t.Errorf("it ran without the lock: %v, with %q", err, g.LockID())
			case <-time.After(300 * time.Millisecond):
			}
			if got := g.BindLock(); got != id || g.LockID() != "" {
				t.Errorf(
					"while another has the lock it is bound to %q and holds %q, want %q and none",
					got, g.LockID(), id)
			}
			must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_UN))
			if err := within(t, "the end", ended); err != nil {
				t.Error(err)
			}
			if got := g.BindLock(); got != id {
				t.Errorf("it is bound to %q, want %q", got, id)
			}
			cancel()
			if err := within(t, "the end of Run", ran); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(file); !os.IsNotExist(err) {
				t.Errorf("the lock file after a clean end: %v, want none", err)
			}
		})
	}
}

// killBound kills a guard process that has its lock for an owner that is bound to it, and returns
// what it is bound to, and the lock's file, opened by another.
func killBound(t *testing.T, f *fixture, ran <-chan error, file string) (id string, other *os.File) {
	t.Helper()
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	guardPID := parent(t, pids(t, f.path("pids"), 1)[0])
	testkit.Eventually(t, "the lock", func() bool { id = f.g.BindLock(); return id != "" })
	other, err := os.OpenFile(file, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	within(t, "the end", ended)
	within(t, "the end of Run", ran)
	return id, other
}

func TestABoundGuardThatCannotHaveItsLockEndsItsRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	f, ran := startMortal(t, guard.Config{LockFile: file})
	_, other := killBound(t, f, ran, file)
	f.g.StuckAfter(300 * time.Millisecond) // while Run does not run
	must(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	again := f.run(t.Context())
	f.exec(t.Context(), guard.Spec{Name: "waits", Command: "true"})
	if err := within(t, "the end of the next Run", again); !errors.Is(err, guard.ErrStuck) {
		t.Errorf("got %v, want %v", err, guard.ErrStuck)
	}
}

func TestWithoutALockFileNothingIsLocked(t *testing.T) {
	up := make(chan bool, 1)
	f := start(t, guard.Config{Up: func(context.Context) { up <- true }})
	within(t, "up", up)
	if f.g.LockID() != "" {
		t.Error("locked")
	}
}

func TestTheLockIsHadWhenTheCommandsOfADeadOwnerAreGone(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "pids")
	// It cleans up for most of its stop timeout.
	o := lockOwner(t, file, `trap 'sleep 0.7; exit' TERM; echo $$ >> `+out+
		`; while :; do sleep 0.01; done`)
	pid := pids(t, out, 1)[0]
	f, up := locking(t, file)
	if within(t, "up", up) {
		t.Error("locked at once")
	}
	must(t, o.cmd.Process.Kill())
	f.locked()
	wantGone(t, pid)
}

func TestALockThatIsHadLateIsAfterTheLeftoversAreGone(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "pids")
	o := lockOwner(t, file, family(out, ""))
	all := pids(t, out, 3)
	guardPID := parent(t, all[0])
	for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	f, up := locking(t, file)
	if within(t, "up", up) {
		t.Error("locked at once")
	}
	for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	f.locked()
	wantGone(t, all...)
}

// Nobody else could end what it had started: it would run beyond its lease beside the next one's.
func TestAFrozenGuardOfADeadOwnerDoesNotKeepTheLock(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "pids")
	o := lockOwner(t, file, family(out, "trap \"\" TERM;"))
	all := pids(t, out, 3)
	// the owner would end a frozen guard process itself
	for _, pid := range []int{o.cmd.Process.Pid, parent(t, all[0])} {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	f, up := locking(t, file)
	if within(t, "up", up) {
		t.Error("locked while its owner lives")
	}
	time.Sleep(10 * 50 * time.Millisecond) // the next guard process looks again every 50 ms
	if !running(all[0]) || f.g.LockID() != "" {
		t.Error("the lock was taken from a guard process whose owner lives")
	}
	must(t, o.cmd.Process.Kill())
	f.locked()
	wantGone(t, all...)
}

func TestTheLockStaysWithTheFirstAndPassesOnAtItsEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	first, _ := locking(t, file)
	first.locked()
	second, up2 := locking(t, file)
	if within(t, "up", up2) {
		t.Error("both are locked")
	}
	third, up3 := locking(t, file)
	if within(t, "up", up3) {
		t.Error("both are locked")
	}
	// One that gives up waiting takes nothing with it, the file's name neither.
	if err := third.stop(); err != nil {
		t.Error(err)
	}
	for _, f := range []*fixture{first, second} {
		if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
			t.Error(err)
		}
	}
	if first.g.LockID() == "" || second.g.LockID() != "" {
		t.Errorf("locked: first %v, second %v", first.g.LockID() != "", second.g.LockID() != "")
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	second.locked()
}

func TestAKilledGuardLosesTheLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	f, ran := startMortal(t, guard.Config{LockFile: file})
	g := f.g
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	guardPID := parent(t, pids(t, f.path("pids"), 1)[0])
	f.locked()
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	within(t, "the end", ended)
	within(t, "the end of Run", ran)
	if g.LockID() != "" {
		t.Error("locked without a guard process")
	}
	next, _ := locking(t, file)
	next.locked()
}

func TestCommandsDoNotInheritTheLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	f, _ := locking(t, file)
	out := f.path("out")
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "ls -l /proc/self/fd > " + out +
		"; env >> " + out}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), out) {
		t.Fatalf("no list of files: %q (%v)", b, err)
	}
	if strings.Contains(string(b), file) {
		t.Errorf("a command knows of %s:\n%s", file, b)
	}
}

func TestALockFileThatOthersCouldHoldIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	target := path("target")
	for _, err := range []error{
		os.WriteFile(target, nil, 0o600),
		os.Symlink(target, path("link")),
		os.Mkdir(path("dir"), 0o700),
		syscall.Mkfifo(path("fifo"), 0o600),
	} {
		must(t, err)
	}
	names := []string{"link", "dir", "fifo", "none/lock", "target/lock"}
	if os.Geteuid() == 0 { // who else may give a file away
		must(t, os.WriteFile(path("foreign"), nil, 0o666))
		must(t, os.Chown(path("foreign"), 1, 1))
		names = append(names, "foreign")
	}
	for _, name := range names {
		err := guard.CheckLockFile(path(name))
		if err == nil || !strings.Contains(err.Error(), "choose a") {
			t.Errorf("%s: got %v, want what to do", name, err)
		}
	}
	if err := guard.CheckLockFile(target); err != nil {
		t.Error(err)
	}
}

func TestAnUnusableLockFileIsNotLockedAndWorkRuns(t *testing.T) {
	up := make(chan bool, 1)
	f := start(t, guard.Config{LockFile: filepath.Join(t.TempDir(), "none", "lock"),
		Up: func(context.Context) { up <- true }})
	within(t, "up", up)
	if f.g.LockID() != "" {
		t.Error("locked")
	}
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Error(err)
	}
}

// onAFullDisk is CheckLockFile where no file can grow.
func onAFullDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		return err
	}
	return guard.CheckLockFile(path)
}

// Nobody could tell later what the guard process of such a lock has left.
func TestALockFileOnAFullDiskIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	check := func() string {
		t.Helper()
		cmd := exec.Command("/proc/self/exe", path)
		cmd.Env = append(os.Environ(), modeEnv+"=full")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if said := check(); !strings.Contains(said, "room") {
		t.Errorf("%s: want an error that says what to do", said)
	}
	// One that is there has its room.
	must(t, guard.CheckLockFile(path))
	if said := check(); said != "<nil>" {
		t.Error(said)
	}
}
