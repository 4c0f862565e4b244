//go:build linux

package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"golang.org/x/sys/unix"
)

// undyingWatch is that of a guard process that has left something in its cgroup which does not die,
// and of which it is not known whose it is, with so many commands that it may be of.
func undyingWatch(t *testing.T, commands int) *watch {
	t.Helper()
	w := deadWatch(t)
	w.cgroup = t.TempDir()
	if err := os.WriteFile(filepath.Join(w.cgroup, "cgroup.events"), []byte("populated 1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for range commands {
		w.l.start(command{Kind: cmdStart}, w.g.lease).told = 1
	}
	return w
}

// The time counts in which it could look, and need not be in one piece.
func TestWhoCannotLookNowAndThenGivesUp(t *testing.T) {
	w := undyingWatch(t, 2)
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		go func() { ended <- w.clearAway() }()
		for range 6 {
			time.Sleep(stuckAfter / 3)
			see := Unseeing(t)
			time.Sleep(leftCheck + leftCheck/10)
			see()
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Error("it says that nothing is left")
			}
		default:
			t.Error("it has not given up when it could look for twice as long as it may wait")
			_ = os.RemoveAll(w.cgroup)
			<-ended
		}
	})
}

// What may be an earlier guard process's, of which something is left, need not be of the only
// command.
func TestWhatMayBeAnEarlierGuardsIsNotTakenForTheOnlyCommands(t *testing.T) {
	w := undyingWatch(t, 1)
	earlier := *w
	synctest.Test(t, func(t *testing.T) {
		w.g.leave(&earlier)
		if err := w.clearAway(); err == nil {
			t.Error("the command waits for what may be another's")
		}
		w.g.left = nil
		if err := w.clearAway(); err != nil {
			t.Errorf("it ended with %v where it can be nobody else's", err)
		}
	})
}

// The guard process's limit and its session are seen without a descriptor.
func TestWhatALimitedGuardLeftIsKilledByWhoCannotLookAndGivesUp(t *testing.T) {
	leader := exec.Command("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := leader.Output()
	if err != nil {
		t.Fatal(err)
	}
	inSession, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(inSession, syscall.SIGKILL) })
	w := deadWatch(t)
	w.cmd = leader
	daemon := leftover(t, "another's", 1).Process.Pid
	limit := limitOf(w.token)
	if err := unix.Prlimit(daemon, unix.RLIMIT_RTTIME,
		&unix.Rlimit{Cur: limit - 1, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	if w.limited = limits(daemon, w.token); !w.limited {
		t.Fatal("its limit is not seen")
	}
	synctest.Test(t, func(t *testing.T) {
		see := Unseeing(t)
		begin := time.Now()
		if err := w.clearAway(); err == nil {
			t.Error("it says that nothing is left, and has not looked")
		}
		if took := time.Since(begin); took < stuckAfter || took > stuckAfter+2*leftCheck {
			t.Errorf("it has given up after %v, want %v", took, stuckAfter)
		}
		see()
	})
	for what, pid := range map[string]int{"limit": daemon, "session": inSession} {
		testkit.Eventually(t, "the end of what has its "+what, func() bool { return hasEnded(pid) })
	}
}

// An owner that has no descriptor for a moment is to adopt all the same what its guard leaves.
func TestWhetherThereAreChildrenIsKnownWithoutADescriptor(t *testing.T) {
	child := leftover(t, "another's", 1)
	see := Unseeing(t)
	if childless() {
		t.Error("a child is not seen")
	}
	see()
	_ = child.Process.Kill()
	_ = child.Wait()
	see = Unseeing(t)
	testkit.Eventually(t, "that there is none", childless)
	see()
}

// On a host with 4,194,304 numbers of processes a look at each of them takes seconds.
func TestWhatDoesNotDieCostsATenthOfAProcessor(t *testing.T) {
	for look, want := range map[time.Duration]time.Duration{
		0:                      leftCheck,
		leftCheck / 20:         leftCheck,
		leftCheck * 3:          leftCheck * 30,
		100 * time.Millisecond: time.Second,
	} {
		if got := rest(look); got != want {
			t.Errorf("after a look of %v it rests %v, want %v", look, got, want)
		}
	}
}

// It may have its lock, and another one would wait for that.
func TestAnOwnerGivesUpWhoseGuardDoesNotDie(t *testing.T) {
	for commands := range 3 {
		for _, dies := range []bool{false, true} {
			w, exited := deadWatch(t), make(chan struct{})
			w.hangs, w.exited, w.token = true, exited, "" // spares the looks at all processes
			for range commands {
				w.l.start(command{Kind: cmdStart}, w.g.lease).told = 1
			}
			synctest.Test(t, func(t *testing.T) {
				ended, begin := make(chan error, 1), time.Now()
				go func() { ended <- w.clearAway() }()
				time.Sleep(stuckAfter - time.Second)
				if n := len(w.l.ids()); n != commands {
					t.Fatalf("%d of %d commands have not ended", n, commands)
				}
				if dies {
					close(exited)
				}
				if err := <-ended; (err == nil) != dies {
					t.Errorf("%d commands: got %v, and that it dies is %v", commands, err, dies)
				}
				if took := time.Since(begin); took > stuckAfter+2*leftCheck {
					t.Errorf("%d commands: it took %v", commands, took)
				}
			})
		}
	}
}
