//go:build linux

package guard

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"golang.org/x/sys/unix"
)

// In the package: two signals in a row mostly look like one to who gets them.

// stopped returns the SIGTERMs that stopping a command sends, as kill(2) is told.
func stopped(t *testing.T, attr *syscall.SysProcAttr) (leader int, terms []int) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cr := newCommandRunner("test", func(event) {})
	*cr.lease = makeLease(time.Now().Add(time.Hour), time.Second)
	cr.send = func(pid int, sig syscall.Signal) error {
		if sig == syscall.SIGTERM {
			terms = append(terms, pid)
		}
		return syscall.Kill(pid, sig)
	}
	r := &run{id: 1, pgid: cmd.Process.Pid, timeout: time.Hour, lease: cr.lease}
	cr.runs[r.id] = r
	cr.stop(r, Stopped)
	cr.stop(r, LeaseEnded) // one end is enough
	cr.enforce()
	if err := cmd.Wait(); err == nil ||
		cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the command's end: %v, want SIGTERM", err)
	}
	return r.pgid, terms
}

func TestACommandIsAskedToEndOnce(t *testing.T) {
	leader, terms := stopped(t, &syscall.SysProcAttr{Setpgid: true})
	if !slices.Equal(terms, []int{-leader}) {
		t.Errorf("SIGTERM to %v, want its group %d once", terms, -leader)
	}
}

func TestALeaderThatLeftItsGroupIsAskedToEndToo(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	leader, terms := stopped(t, &syscall.SysProcAttr{Setpgid: true, Pgid: other.Process.Pid})
	if !slices.Equal(terms, []int{-leader, leader}) {
		t.Errorf("SIGTERM to %v, want the group %d and then its leader", terms, -leader)
	}
}

// A guard process that stood still finds both at once: that the command has ended, and that it is
// to stop.
func TestACommandThatHasEndedByItselfIsNotStopped(t *testing.T) {
	var exit *event
	cr := newCommandRunner(newToken(), func(e event) {
		if e.Kind == evExited {
			exit = &e
		}
	})
	*cr.lease = makeLease(time.Now().Add(time.Hour), time.Second)
	cr.do(command{Kind: cmdStart, ID: 1, Argv: []string{"/bin/sh", "-c", "exit 3"},
		Epoch: cr.lease.Epoch})
	r := cr.runs[1]
	if r == nil {
		t.Fatalf("it was not started: %+v", exit)
	}
	testkit.Eventually(t, "it waits to be reaped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.pgid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	cr.do(command{Kind: cmdStop, ID: 1})
	testkit.Eventually(t, "it is reaped", func() bool {
		cr.reap()
		cr.settleEnded()
		return exit != nil
	})
	if exit.Reason != Ended || exit.Code != 3 {
		t.Errorf("it %s with code %d, want %s with 3", exit.Reason, exit.Code, Ended)
	}
}

// A daemon leaves its group when its parent, the command itself, has ended: that is when the guard
// process looks whether anything is left.
func TestADaemonThatLeavesItsGroupDuringALookIsSeen(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	// what other tests leave is not for this process to reap
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	var exit *event
	cr := newCommandRunner(newToken(), func(e event) {
		if e.Kind == evExited {
			exit = &e
		}
	})
	*cr.lease = makeLease(time.Now().Add(time.Hour), time.Second)
	dir := t.TempDir()
	cr.do(command{Kind: cmdStart, ID: 1, StopTimeout: time.Hour, Epoch: cr.lease.Epoch,
		Argv: []string{"/bin/sh", "-c", "trap '' TERM; cd " + dir + `
sh -c 'echo $$ > new; mv new pid; until [ -e leave ]; do sleep 0.01; done
	exec setsid sleep 1000' &
until [ -e pid ]; do sleep 0.01; done`}})
	r := cr.runs[1]
	if r == nil {
		t.Fatalf("it was not started: %+v", exit)
	}
	testkit.Eventually(t, "the command itself is reaped", func() bool {
		cr.reap()
		return r.leaderGone
	})
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	daemon, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := cmp.Or(err, bad); err != nil {
		t.Fatal(err)
	}
	cr.send = func(pid int, sig syscall.Signal) error {
		if sig == 0 && !r.groupGone {
			_ = os.WriteFile(filepath.Join(dir, "leave"), nil, 0o600)
			testkit.Eventually(t, "the daemon leaves its group", func() bool {
				group, err := syscall.Getpgid(daemon)
				return err != nil || group != r.pgid
			})
		}
		return syscall.Kill(pid, sig)
	}
	if cr.settleEnded(); exit != nil {
		t.Errorf("the command is said to have ended, and its daemon runs: %+v", *exit)
	}
	_ = syscall.Kill(daemon, syscall.SIGKILL)
	testkit.Eventually(t, "the daemon's end is seen", func() bool {
		cr.reap()
		cr.settleEnded()
		return exit != nil
	})
}

// The lease that is held when a command is told to stop is renewed meanwhile: its end of then is
// none.
func TestAStopTimeoutLastsLongerThanTheLeaseOfItsBeginning(t *testing.T) {
	const lasts = 300 * time.Millisecond
	killed := false
	cr := newCommandRunner("test", func(event) {})
	cr.send = func(_ int, sig syscall.Signal) error {
		killed = killed || sig == syscall.SIGKILL
		return nil
	}
	until := func(end time.Duration) {
		cr.do(command{Kind: cmdLease, Lease: makeLease(time.Now().Add(end), time.Millisecond)})
	}
	until(lasts)
	cr.runs[1] = &run{id: 1, pgid: os.Getpid(), timeout: time.Hour, lease: cr.lease}
	cr.do(command{Kind: cmdStop, ID: 1})
	until(time.Minute)
	time.Sleep(lasts)
	if cr.enforce(); killed {
		t.Error("it was killed at the end of a lease that had been renewed")
	}
	until(0)
	if cr.enforce(); !killed {
		t.Error("it was not killed at the end of its lease")
	}
}
