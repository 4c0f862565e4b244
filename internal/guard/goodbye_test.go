//go:build linux

package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// mourned is an owner whose command runs and who is to have words said for it.
type mourned struct {
	*owner
	t        *testing.T
	lock     string
	said     string // the file that the words go to
	all      []int
	guardPID int
}

// startMourned runs a command that ignores its order to end, or takes its time with it.
func startMourned(t *testing.T, trap, how string, wait time.Duration) *mourned {
	t.Helper()
	dir := t.TempDir()
	m := &mourned{t: t, lock: filepath.Join(dir, "lock"), said: filepath.Join(dir, "said")}
	pidFile := filepath.Join(dir, "pids")
	if how == "running" {
		how += " " + pidFile
	}
	t.Setenv(goodbyeEnv, m.said+" "+how)
	t.Setenv(goodbyeEnv+"_WAIT", wait.String())
	m.owner = lockOwner(t, m.lock, trap+` echo $$ >> `+pidFile+`; while :; do sleep 0.01; done`)
	m.all = pids(t, pidFile, 1)
	m.guardPID = parent(t, m.all[0])
	// On a machine with nothing to sweep the lock is taken with the hello.
	return m
}

func (m *mourned) kill(pid int) {
	m.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mourned) die() { m.t.Helper(); m.kill(m.cmd.Process.Pid) }

func (m *mourned) words() string {
	b, _ := os.ReadFile(m.said)
	return string(b)
}

// guardEnds waits until the guard process is gone, so that nothing more can be said.
func (m *mourned) guardEnds() {
	m.t.Helper()
	testkit.Eventually(m.t, "the end of the guard process", func() bool {
		return !running(m.guardPID)
	})
}

func TestADeadOwnersGoodbyeIsSaidWhenItsCommandsAreGone(t *testing.T) {
	for name, trap := range map[string]string{"slow": "trap 'sleep 0.5; exit' TERM;",
		"deaf": "trap '' TERM;"} {
		t.Run(name, func(t *testing.T) {
			m := startMourned(t, trap, "running", 0)
			m.die()
			testkit.Eventually(t, "the goodbye", func() bool { return m.words() != "" })
			m.guardEnds()
			if m.words() != "said" {
				t.Errorf("said %q", m.words())
			}
		})
	}
}

func TestAGoodbyeWaitsForASuccessorFirst(t *testing.T) {
	const wait = 700 * time.Millisecond
	m := startMourned(t, "", "", wait)
	begin := time.Now()
	m.die()
	testkit.Eventually(t, "the goodbye", func() bool { return m.words() != "" })
	if took := time.Since(begin); took < wait {
		t.Errorf("said after %v, before the %v that a successor has", took, wait)
	}
}

func TestAWaitAboveTheLimitMeansNoGoodbye(t *testing.T) {
	m := startMourned(t, "", "", time.Hour)
	m.die()
	m.guardEnds()
	if m.words() != "" {
		t.Errorf("said %q", m.words())
	}
}

func TestWhatASuccessorWillTakeOverIsNotTakenBack(t *testing.T) {
	m := startMourned(t, "trap 'sleep 0.3; exit' TERM;", "", 30*time.Second)
	// It is there before the death: nothing depends on who is quicker.
	p, err := guard.Announce(m.lock)
	must(t, err)
	defer p.Leave()
	m.die()
	m.guardEnds()
	wantGone(t, m.all...)
	if m.words() != "" {
		t.Errorf("said %q", m.words())
	}
}

func TestAGoodbyeIsCutShortWhenASuccessorComes(t *testing.T) {
	m := startMourned(t, "", "hang", 0)
	m.die()
	testkit.Eventually(t, "the beginning", func() bool {
		_, err := os.Lstat(m.said + ".begun")
		return err == nil
	})
	p, err := guard.Announce(m.lock)
	must(t, err)
	m.guardEnds()
	if m.words() != "cut short" {
		t.Errorf("said %q", m.words())
	}
	p.Leave()
}

func TestAFrozenOwnerHasNoGoodbye(t *testing.T) {
	m := startMourned(t, "", "", 0)
	freeze(t, m.cmd.Process.Pid)
	testkit.Eventually(t, "the end of the work", func() bool { return !running(m.all[0]) })
	// ten looks at its presence: a guard that took it for dead would have said it
	time.Sleep(100 * time.Millisecond)
	if m.words() != "" || !running(m.guardPID) {
		t.Fatalf("frozen, and the guard said %q (it runs: %v)", m.words(), running(m.guardPID))
	}
	m.die() // now it is dead
	testkit.Eventually(t, "the goodbye", func() bool { return m.words() != "" })
}

func TestACleanEndHasNoGoodbye(t *testing.T) {
	file, said := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "said")
	f, _ := locking(t, file)
	f.g.Goodbye(guard.Goodbye{Words: []byte(said), Limit: time.Minute})
	f.locked()
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}))
	if err := f.stop(); err != nil { // returns when the guard process is gone
		t.Fatal(err)
	}
	if _, err := os.Lstat(said); err == nil {
		t.Error("said")
	}
}

func TestAKilledGuardSaysNothing(t *testing.T) {
	m := startMourned(t, "", "", 0)
	// frozen first, so that neither sees the other die
	freeze(t, m.cmd.Process.Pid, m.guardPID)
	m.kill(m.guardPID)
	m.die()
	m.guardEnds()
	if m.words() != "" {
		t.Errorf("said %q", m.words())
	}
}

// What the one before has started is not gone before that one's guard is: its end may be near, and
// its keys are the same.
func TestNothingIsSaidBeforeTheGuardBeforeIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	before, _ := locking(t, file)
	before.locked()
	said, pidFile := filepath.Join(t.TempDir(), "said"), filepath.Join(t.TempDir(), "pids")
	t.Setenv(goodbyeEnv, said)
	o := lockOwner(t, file, "echo $$ >> "+pidFile+"; exec sleep 1000")
	pid := pids(t, pidFile, 1)[0]
	guardPID := parent(t, pid)
	must(t, o.cmd.Process.Kill())
	testkit.Eventually(t, "the end of the work", func() bool { return !running(pid) })
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Lstat(said); err == nil || !running(guardPID) {
		t.Fatalf("said while the lock is another's (%v), or it did not wait", err)
	}
	must(t, before.stop())
	testkit.Eventually(t, "the goodbye", func() bool {
		_, err := os.Lstat(said)
		return err == nil
	})
}

func TestLeftNothingIsTrueWhenTheCommandsOfADeadOwnerAreGone(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "pids")
	o := lockOwner(t, file, family(out, ""))
	all := pids(t, out, familySize)
	guardPID := parent(t, all[0])
	id := fileID(t, file)
	if guard.LeftNothing(file, id) {
		t.Error("its commands run")
	}
	freeze(t, o.cmd.Process.Pid, guardPID)
	for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	// Now its grandchildren are left, and nobody looks after them.
	another := filepath.Join(t.TempDir(), "lock")
	must(t, guard.CheckLockFile(another))
	for name, other := range map[string][2]string{"another id": {file, id + "0"},
		"no id": {file, ""}, "no file": {file + "0", id}, "another file": {another, id}} {
		if guard.LeftNothing(other[0], other[1]) {
			t.Errorf("%s: taken for the lock", name)
		}
	}
	testkit.Eventually(t, "nothing left", func() bool { return guard.LeftNothing(file, id) })
	if cgroupsHere() == nil {
		wantGone(t, all...)
	}
}

func TestAPresenceFileThatOthersCouldHoldIsRefused(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	if p, err := guard.Announce(lock); err != nil {
		t.Errorf("where there is no guard process to see it: %v", err)
	} else {
		p.Leave()
	}
	must(t, guard.CheckLockFile(lock))
	must(t, os.Symlink(lock, lock+".here"))
	if _, err := guard.Announce(lock); err == nil || !strings.Contains(err.Error(), "remove") {
		t.Errorf("got %v, want what to do", err)
	}
}

// A candidate has no successor with its id.
func TestAGoodbyeNeedsNoLock(t *testing.T) {
	said, file := filepath.Join(t.TempDir(), "said"), filepath.Join(t.TempDir(), "pids")
	t.Setenv(goodbyeEnv, said)
	o := startOwner(t, "echo $$ >> "+file+"; exec sleep 1000")
	pids(t, file, 1)
	must(t, o.cmd.Process.Kill())
	testkit.Eventually(t, "the goodbye", func() bool { _, err := os.Lstat(said); return err == nil })
}
