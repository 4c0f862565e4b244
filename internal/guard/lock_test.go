//go:build linux

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	f, up := locking(t, file)
	if !within(t, "up", up) {
		t.Error("not locked")
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if f.g.LockID() != "" {
		t.Error("locked after a clean end")
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

// Others have been told that nothing is left once they hold it.
func TestALockOutlivesItsGuardProcessAndItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	f, ran := startMortal(t, guard.Config{LockFile: file})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	guardPID := parent(t, pids(t, f.path("pids"), 1)[0])
	f.locked()
	id := fileID(t, file)
	other, err := os.OpenFile(file, os.O_RDWR, 0)
	must(t, err)
	defer other.Close()
	must(t, os.Remove(file))
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	within(t, "the end", ended)
	within(t, "the end of Run", ran)
	held := func() bool {
		return errors.Is(syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
			syscall.EWOULDBLOCK)
	}
	if f.g.LockID() != id || !held() {
		t.Errorf("between two guard processes: %q (held %v), want %q", f.g.LockID(), held(), id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran = f.run(ctx)
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}))
	if f.g.LockID() != id || !held() {
		t.Errorf("with the next: %q (held %v), want %q", f.g.LockID(), held(), id)
	}
	cancel()
	must(t, within(t, "the end of Run", ran))
	if held() {
		t.Error("it is held after a clean end")
	}
}
