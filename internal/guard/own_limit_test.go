//go:build linux

package guard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// A program may lower its own soft limit on real-time processor time, which names its command else.
const lowersItsLimit = "prlimit --rttime=500000:"

func TestADaemonThatLowersItsLimitIsWaitedFor(t *testing.T) {
	o := startTold(t)
	o.tell("exec a (%s &); sleep 1000; true", o.asRoot("setsid "+lowersItsLimit,
		"exec sleep 1000"))
	daemon := o.root()
	o.tell("stop a")
	o.silent(time.Second)
	wantRunning(t, daemon)
	o.ends(daemon)
	o.hears("a ended: ")
}

// It may be any item's when its guard process is dead.
func TestADaemonThatLowersItsLimitIsNobodysWhenItsGuardIsDead(t *testing.T) {
	o := startTold(t)
	b := o.sleeps("b")
	o.tell("exec a %s & wait", o.asRoot("setsid "+lowersItsLimit, "exec sleep 1000"))
	daemon := o.root()
	must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
	o.hears("stuck: ")
	o.silent(100 * time.Millisecond)
	wantRunning(t, daemon)
}

// There is no other item whose it could be.
func TestADaemonThatLowersItsLimitKeepsTheOnlyItemOfItsDeadGuard(t *testing.T) {
	o := startTold(t)
	o.tell("exec a echo $PPID > %s/guard; %s & wait", o.dir,
		o.asRoot("setsid "+lowersItsLimit, "exec sleep 1000"))
	daemon := o.root()
	must(t, syscall.Kill(pids(t, filepath.Join(o.dir, "guard"), 1)[0], syscall.SIGKILL))
	o.silent(5 * time.Second)
	b := o.sleeps("b") // by the next guard process
	wantRunning(t, daemon)
	o.ends(daemon)
	o.hears("a ended: ")
	wantRunning(t, b)
}

func TestAHelperThatLowersItsLimitOutlivesAnotherCommand(t *testing.T) {
	f := start(t, guard.Config{NoCgroups: true, StopTimeout: 200 * time.Millisecond})
	_ = f.exec(t.Context(), guard.Spec{Name: "a", Command: fmt.Sprintf(
		"(setsid %s sh -c 'echo $$ > %s; exec sleep 1000' &); sleep 1000; true", lowersItsLimit,
		f.path("helper"))})
	helper := pids(t, f.path("helper"), 1)[0]
	must(t, <-f.exec(t.Context(), guard.Spec{Name: "b", Command: "true"}))
	must(t, <-f.exec(t.Context(), guard.Spec{Name: "c", Command: "true"}))
	wantRunning(t, helper)
}

func TestEachItemOfADeadGuardEndsWithItsOwnProcess(t *testing.T) {
	o := startTold(t)
	b := o.sleeps("b")
	root := filepath.Join(o.dir, "root")
	o.tell("exec a %s & wait", o.asRoot("setsid", "exec sleep 1000"))
	a := o.root()
	must(t, os.Remove(root))
	o.tell("exec c %s & wait", o.asRoot("setsid", "exec sleep 1000"))
	c := o.root()
	must(t, syscall.Kill(parent(t, b), syscall.SIGKILL))
	o.hears("b ended: ")
	o.ends(c)
	o.hears("c ended: ")
	wantRunning(t, a)
	o.silent(100 * time.Millisecond)
	o.ends(a)
	o.hears("a ended: ")
}

// It answers, and has killed all that it sees.
func TestAGuardThatCannotLookIsNotKeptBeyondTheLease(t *testing.T) {
	o := startTold(t)
	file, b := filepath.Join(o.dir, "daemon"), filepath.Join(o.dir, "b")
	o.tell("exec a setsid sh -c 'trap \"\" TERM; echo $$ > %s; while :; do sleep 0.2; done' & "+
		"wait", file)
	daemon := pids(t, file, 1)[0]
	o.tell("exec b prlimit --pid $PPID --nofile=5: && echo $$ > %s; exec sleep 1000", b)
	pids(t, b, 1)
	o.tell("session s2")
	testkit.Eventually(t, "the end of the daemon", func() bool { return !running(daemon) })
	for _, line := range []string{o.hears(""), o.hears("")} {
		if !strings.Contains(line, "guard-lost") {
			t.Errorf("it says %q, want that the guard process is lost", line)
		}
	}
}
