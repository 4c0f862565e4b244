//go:build linux

package guard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// In the package: from outside these are races that few runs would see.

// told is a runner with a lease that lasts, and what it says.
func told(t *testing.T, starts int) (r *runner, said chan event) {
	t.Helper()
	said = make(chan event, 1000)
	r = newRunner(nil, starts, func(e event) { said <- e })
	l := makeLease(time.Now().Add(time.Hour), time.Second)
	l.Seq, l.Epoch = 1, 1
	r.take(l)
	return r, said
}

func shell(id uint64, command string, under *lease) start {
	return start{ID: id, Argv: []string{"/bin/sh", "-c", command}, StopTimeout: time.Hour,
		Lease: *under}
}

// One as busy as that: no starter takes anything. No more than the limit are given to starters.
func TestNoStartDelaysALeaseAStopOrAnAnswer(t *testing.T) {
	for _, limit := range []int{1, 5} {
		noStartDelays(t, limit)
	}
}

func noStartDelays(t *testing.T, limit int) {
	r, said := told(t, limit)
	controls, starts := make(chan control), make(chan start)
	ended := make(chan struct{})
	go func() { defer close(ended); r.loop(controls, starts) }()
	given, last := limit, uint64(limit+mostQueued)
	held := *r.lease
	for id := range last {
		starts <- shell(id+1, "true", &held)
	}
	controls <- control{Kind: ctlLease, Lease: held}
	if e := <-said; e.Kind != evLease {
		t.Errorf("to a lease it said %+v", e)
	}
	// A start that is stopped before it is read, and one that waits.
	controls <- control{Kind: ctlStop, ID: last + 1}
	controls <- control{Kind: ctlStop, ID: last}
	next := held
	next.Seq, next.Gone = 2, true
	controls <- control{Kind: ctlLease, Lease: next}
	<-said
	starts <- shell(last+1, "true", &held)
	for range last - uint64(given) + 1 {
		e := <-said
		if wantStop := e.ID >= last; e.Reason != NotStarted || e.NoLease == wantStop {
			t.Errorf("without a lease: %+v", e)
		}
	}
	for range given {
		l := <-r.work
		l.err = ErrNotUp
		r.started <- l
		if e := <-said; e.Reason != NotStarted {
			t.Errorf("not started: %+v", e)
		}
	}
	close(controls)
	<-ended
	if len(r.waiting) > 0 {
		t.Errorf("controls wait for what has ended: %v", r.waiting)
	}
}

// The two pipes have no order between them.
func TestTheNewestLeaseCountsWhicheverPipeBringsIt(t *testing.T) {
	r, _ := told(t, 2)
	of := func(seq, epoch uint64, left time.Duration, gone bool) lease {
		l := makeLease(time.Now().Add(left), 0)
		l.Seq, l.Epoch, l.Gone = seq, epoch, gone
		return l
	}
	first := &run{lease: r.lease}
	r.runs[1] = first
	r.take(of(3, 1, 2*time.Hour, false))
	r.take(of(2, 1, time.Minute, true)) // late
	if !first.lease.held() || first.lease.left() < time.Hour {
		t.Errorf("an old lease came after a new one: %+v", first.lease)
	}
	r.take(of(6, 2, time.Hour, false)) // with a start
	r.take(of(5, 1, time.Minute, true))
	r.take(of(4, 1, 3*time.Hour, false))
	if first.lease.held() || first.lease.left() > time.Minute || !r.lease.held() ||
		r.lease.Epoch != 2 {
		t.Errorf("of the former epoch %+v, and now %+v", first.lease, r.lease)
	}
}

func TestACommandThatEndsBeforeItsStarterSaysSoHasItsOwnEnd(t *testing.T) {
	r, said := told(t, 2)
	l := &launch{start: shell(1, "exit 3", r.lease), under: r.lease, given: 2}
	r.early[0] = early{}
	r.starting, r.given = 1, 2
	if l.err = r.launch(l); l.err != nil {
		t.Fatal(l.err)
	}
	testkit.Eventually(t, "it is reaped", func() bool { r.reap(); return len(r.early) == 2 })
	r.begin(l)
	testkit.Eventually(t, "its end", func() bool { r.settle(); return len(said) == 2 })
	<-said
	if e := <-said; e.Kind != evExited || e.Code != 3 || e.Reason != Ended {
		t.Errorf("%+v, want code 3", e)
	}
	// The number of an earlier one's end is not its own.
	l.given, r.starting, r.early = 3, 1, map[int]early{l.pid: {given: 2}}
	r.begin(l)
	if r.runs[1].leaderGone {
		t.Error("an older process's end was taken for it")
	}
}

// A guard process that stood still finds both at once: that the command has ended, and that it is
// to stop.
func TestACommandThatHasEndedByItselfIsNotStopped(t *testing.T) {
	r, said := told(t, 2)
	l := &launch{start: shell(1, "exit 3", r.lease), under: r.lease}
	r.starting = 1
	if l.err = r.launch(l); l.err != nil {
		t.Fatal(l.err)
	}
	r.highest = 1
	r.begin(l)
	<-said
	testkit.Eventually(t, "it waits to be reaped", func() bool {
		out, _ := exec.Command("grep", "^State", fmt.Sprintf("/proc/%d/status", l.pid)).Output()
		return len(out) > 7 && out[7] == 'Z'
	})
	r.do(control{Kind: ctlStop, ID: 1})
	testkit.Eventually(t, "its end", func() bool { r.settle(); return len(said) > 0 })
	if e := <-said; e.Reason != Ended || e.Code != 3 {
		t.Errorf("%+v, want code 3, ended", e)
	}
}

func TestAKillOfAllReachesWhatAStarterIsAt(t *testing.T) {
	r, said := told(t, 2)
	killed := false
	r.send = func(pid int, sig syscall.Signal) error {
		if sig == syscall.SIGTERM {
			return nil // it is deaf to that
		}
		killed = killed || sig == syscall.SIGKILL
		return syscall.Kill(pid, sig)
	}
	l := &launch{start: shell(1, "exec sleep 1000", r.lease), under: r.lease}
	r.starting = 1
	if l.err = r.launch(l); l.err != nil {
		t.Fatal(l.err)
	}
	r.do(control{Kind: ctlKill})
	r.begin(l)
	<-said
	testkit.Eventually(t, "its end", func() bool {
		r.reap()
		r.enforce()
		r.settle()
		return len(said) > 0
	})
	if e := <-said; !killed || e.Reason != Stopped {
		t.Errorf("%+v, want SIGKILL, stopped", e)
	}
}

// A guard process on a busy host finds the end of a command late. It tells when the command was
// killed, or seen to run last, as well.
func TestAnEndIsToldWithWhenTheCommandWasKilledOrLastSeenToRun(t *testing.T) {
	for name, c := range map[string]struct {
		deaf    bool // the kernel refuses SIGKILL
		end     func(r *runner, run *run)
		fromEnd bool // it is known to have run until it was killed
	}{
		"killed": {end: func(r *runner, run *run) { r.kill(run) }, fromEnd: true},
		"killed in vain, and ended by itself": {deaf: true, end: func(r *runner, run *run) {
			r.kill(run)
			_ = syscall.Kill(run.pgid, syscall.SIGTERM)
		}},
		"ended by itself": {end: func(_ *runner, run *run) {
			_ = syscall.Kill(run.pgid, syscall.SIGTERM)
		}},
	} {
		r, said := told(t, 2)
		r.send = func(pid int, sig syscall.Signal) error {
			if c.deaf && sig == syscall.SIGKILL && syscall.Kill(pid, 0) == nil {
				return syscall.EPERM
			}
			return syscall.Kill(pid, sig)
		}
		l := &launch{start: shell(1, "exec sleep 1000", r.lease), under: r.lease}
		r.starting = 1
		if l.err = r.launch(l); l.err != nil {
			t.Fatal(l.err)
		}
		r.begin(l)
		<-said
		looks := time.Now()
		r.reap()
		ends := time.Now()
		c.end(r, r.runs[1])
		testkit.Eventually(t, "it waits to be reaped", func() bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.pid))
			return strings.Contains(string(b), ") Z ")
		})
		gone := time.Now()
		testkit.Eventually(t, "its end", func() bool { r.reap(); r.settle(); return len(said) > 0 })
		from, to := looks, ends
		if c.fromEnd {
			from, to = ends, gone
		}
		e := <-said
		if ran := time.Unix(0, e.Ran); ran.Before(from.Round(0)) || ran.After(to.Round(0)) ||
			e.Ended < gone.UnixNano() {
			t.Errorf("%s: it ran until %v and was gone at %v; looked at %v, ended from %v to %v",
				name, ran, time.Unix(0, e.Ended), looks, ends, gone)
		}
	}
}

// After a host stood still all commands are late: none waits for what others take to stop.
func TestWhatIsToBeKilledIsKilledBeforeAnyIsStopped(t *testing.T) {
	r, _ := told(t, 2)
	over := makeLease(time.Now().Add(-time.Second), time.Second)
	ending := makeLease(time.Now().Add(30*time.Minute), time.Hour)
	var sent []syscall.Signal
	r.send = func(_ int, sig syscall.Signal) error { sent = append(sent, sig); return nil }
	const late, stopped = 100, 3
	for id := range uint64(late + stopped) {
		r.runs[id] = &run{id: id, pgid: 1 << 30, leaderGone: true, timeout: time.Hour, lease: &over}
		if id >= late {
			r.runs[id].lease = &ending
		}
	}
	r.enforce()
	if n := slices.Index(sent, syscall.SIGTERM); n != late || len(sent) != late+2*stopped {
		t.Errorf("SIGTERM is signal %d of %d; want %d SIGKILLs before it, and it %d times", n,
			len(sent), late, stopped)
	}
	for id, run := range r.runs {
		if run.reason != LeaseEnded || run.killed != (id < late) {
			t.Errorf("%d: %q, killed: %v", id, run.reason, run.killed)
		}
	}
}

// Many programs take a second SIGTERM for an order to end at once.
func TestACommandIsAskedToEndOnce(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	for name, group := range map[string]int{"in its group": 0, "left": other.Process.Pid} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r, _ := told(t, 2)
		var terms []int
		r.send = func(pid int, sig syscall.Signal) error {
			if sig == syscall.SIGTERM {
				terms = append(terms, pid)
			}
			return syscall.Kill(pid, sig)
		}
		run := &run{id: 1, pgid: cmd.Process.Pid, timeout: time.Hour, lease: r.lease}
		r.runs[run.id] = run
		r.stop(run, Stopped)
		r.stop(run, LeaseEnded) // one end is enough
		r.enforce()
		_ = cmd.Wait()
		want := []int{-run.pgid}
		if group != 0 {
			want = append(want, run.pgid)
		}
		if !slices.Equal(terms, want) {
			t.Errorf("%s: SIGTERM to %v, want %v", name, terms, want)
		}
	}
}

// A full disk takes no byte of what the next holder has to clear from the file.
func TestASignatureThatCannotBeWrittenLeavesTheOneBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("/sys/fs/cgroup/coordd-guard.X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// os refuses to write at a place in a file that is open for appending, and cuts it off all the
	// same.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := &locker{file: f, cgroup: "/sys/fs/cgroup/coordd-guard.Y"}
	if l.sign() == nil {
		t.Fatal("it was written")
	}
	if b, _ := os.ReadFile(path); string(b) != "/sys/fs/cgroup/coordd-guard.X\n" {
		t.Errorf("the file holds %q", b)
	}
}
