//go:build linux

package guard

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// In the package: from outside these are races that few runs would see.

// claimOne claims what the guard with that token has left.
func claimOne(token string) func(string) claim {
	return func(found string) claim {
		if found == token {
			return awaited
		}
		return none
	}
}

// trySoLong tries as keep does: what was killed may take longer than one round to be gone on a busy
// machine. It counts once for each round.
func trySoLong(l *locker) (swept int, err error) {
	for end := time.Now().Add(testkit.Patience); ; {
		var more int
		more, err = l.try()
		swept += more
		if err == nil || time.Now().After(end) {
			return swept, err
		}
	}
}

func TestWhatTheFormerHolderLeftIsKilledBeforeItsEndShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	// No guard has this token, so it is not known to be dead by itself: the lock is what says so.
	const token = "former-holder"
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), markerEnv+"="+token+"/1")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	l := &locker{path: path, token: newToken()}
	if swept, err := trySoLong(l); swept < 1 || err != nil {
		_ = left.Process.Kill()
		t.Errorf("%d killed (%v), want 1", swept, err)
	}
	if err := left.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	defer l.file.Load().Close()
	if b, err := os.ReadFile(path); err != nil || string(b) != l.token+"\n" {
		t.Errorf("for the next one it says %q (%v), want %q", b, err, l.token)
	}

	second := &locker{path: path, token: newToken()}
	if _, err := second.try(); !errors.Is(err, errLockHeld) {
		t.Errorf("the second: %v, want %v", err, errLockHeld)
	}
}

// Where it cannot be written, on a full disk, or not be read whose work may be left, the lock does
// not say that nothing is.
func TestALockThatCannotBeSignedSaysNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// What is written to the one, or read from the other, fails.
	for name, how := range map[string]int{"written": os.O_RDONLY, "read": os.O_WRONLY} {
		f, err := os.OpenFile(path, how, 0)
		if err != nil {
			t.Fatal(err)
		}
		l := &locker{path: path, token: newToken(), open: f}
		for range 2 {
			if _, err := l.try(); err == nil || errors.Is(err, errLockHeld) || l.clean.Load() {
				t.Errorf("not %s: %v, and clean %v: want an error that says why", name, err,
					l.clean.Load())
			}
		}
		f.Close()
	}
}

// As one that waits for a disk. It comes back here as soon as it is killed.
func TestWhatDoesNotDieOfAnothersDeadGuardKeepsNoBoundLock(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	token := nameOf(dead.Process.Pid, "another")
	if err := dead.Wait(); err != nil {
		t.Fatal(err)
	}
	// several: a busy host takes its time until one is back
	left := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do while :; do "+markerEnv+"="+
		token+"/1 sleep 1000; done & done; wait")
	left.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-left.Process.Pid, syscall.SIGKILL); _ = left.Wait() }()
	testkit.Eventually(t, "they are there", func() bool {
		pids, err := testkit.Marked(markerEnv + "=" + token + "/1")
		return err == nil && len(pids) == 8
	})
	for _, bound := range []bool{false, true} {
		f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l := &locker{token: newToken(), open: f, bound: bound}
		var had error
		if bound {
			_, had = trySoLong(l)
		} else {
			_, had = l.try()
		}
		if (had == nil) != bound {
			t.Errorf("bound before %v: %v", bound, had)
		}
	}
}

// /proc calls such a process a zombie, and shows its environment only to who asks for its other
// threads.
func TestAProcessWithoutItsFirstThreadIsFound(t *testing.T) {
	const token = "former-holder-of-threads"
	left := exec.Command("/proc/self/exe")
	left.Env = append(os.Environ(), markerEnv+"="+token+"/1", "GUARD_TEST_MODE=headless")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	stat := filepath.Join("/proc", strconv.Itoa(left.Process.Pid), "stat")
	testkit.Eventually(t, "its first thread ends", func() bool {
		b, err := os.ReadFile(stat)
		return err == nil && strings.Contains(string(b), ") Z ")
	})
	killed, _, err := killMarked(&census{}, claimOne(token), nil, testkit.Patience)
	if killed != 1 || err != nil {
		_ = left.Process.Kill()
		t.Errorf("%d killed (%v), want 1", killed, err)
	}
	_ = left.Wait()
}

// While a process executes another program there is a moment in which nobody can see its
// environment.
func TestAProcessThatExecutesProgramAfterProgramIsSeenAtEachLook(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("exec /bin/sh \"$0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "former-holder-that-executes"
	again := exec.Command("/bin/sh", script)
	// What is read of an environment may end within the marker: a first look takes 512 bytes.
	fill := "FILL=" + strings.Repeat("x", 512-len("FILL=")-1-len(markerEnv+"=")-len(token)/2)
	again.Env = []string{fill, markerEnv + "=" + token + "/1"}
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	}()
	for range 5000 {
		mark, err := marker(again.Process.Pid)
		if mark != token+"/1" && !errors.Is(err, errExecuting) {
			t.Fatalf("its marker is %q (%v)", mark, err)
		}
	}
}

// Each of a relay lives for a moment, and is another process when it is looked at than when it was
// listed.
func TestNothingIsCalledGoneThatIsPassedOnFromProcessToProcess(t *testing.T) {
	script := filepath.Join(t.TempDir(), "relay") // its removal ends the relay
	if err := os.WriteFile(script, []byte("/bin/sh \"$0\" &\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "former-holder-of-a-relay"
	for range 5 {
		alive, held, err := os.Pipe() // all of them hold it open
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		left := exec.Command("/bin/sh", script)
		left.Env = append(os.Environ(), markerEnv+"="+token+"/1")
		left.ExtraFiles = []*os.File{held}
		if err := errors.Join(left.Start(), held.Close(), left.Wait()); err != nil {
			t.Fatal(err)
		}
		_, _, err = killMarked(&census{}, claimOne(token), nil, testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := alive.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("it is not gone: %v, want %v", err, io.EOF)
		}
	}
}

func TestAFileThatLostItsNameIsNotTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := flockNow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !named(f, path) {
		t.Error("not named while it is there")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if named(f, path) {
		t.Error("named when it was removed")
	}
	other, err := flockNow(path)
	if err != nil {
		t.Fatalf("the new file: %v", err)
	}
	defer other.Close()
	if named(f, path) || !named(other, path) {
		t.Error("the new file is the lock, not the old one")
	}
	// The end of the process that held the old one leaves the new one alone.
	old := &locker{path: path}
	old.file.Store(f)
	old.tidy()
	if !named(other, path) {
		t.Error("another's file was removed")
	}
}

// Unseeing takes all descriptors away from this process, until see: what it would have to open to
// look, it cannot.
func Unseeing(t *testing.T) (see func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	see = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(see)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3,
		Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return see
}

func TestALockIsNotHadByWhoCannotLookForLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("former-holder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := exec.Command("sleep", "1000")
	left.Env = append(os.Environ(), markerEnv+"=former-holder/1")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	l := &locker{path: path, token: newToken()}
	var err error
	if l.open, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	defer l.open.Close()
	see := Unseeing(t)
	_, err = l.try()
	see()
	if !errors.Is(err, syscall.EMFILE) || l.clean.Load() {
		t.Errorf("without a look: %v, clean %v, want %v and not clean", err, l.clean.Load(),
			syscall.EMFILE)
	}
	if swept, err := trySoLong(l); swept < 1 || err != nil {
		_ = left.Process.Kill()
		t.Errorf("%d killed (%v), want 1", swept, err)
	}
	if err := left.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

func TestACommandHasNotEndedWhileNobodyCanLookForItsStrays(t *testing.T) {
	cr := newCommandRunner(newToken(), func(e event) { t.Errorf("said %+v", e) })
	cr.runs[1] = &run{id: 1, leaderGone: true, groupGone: true, reason: Ended, lease: cr.lease,
		termed: map[int]bool{}}
	defer Unseeing(t)()
	cr.settleEnded()
	if cr.runs[1] == nil {
		t.Error("it counts as ended")
	}
}
