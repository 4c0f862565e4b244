//go:build linux

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

// owner is a process of its own that owns a guard.
type owner struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startOwner(t *testing.T, command string) *owner {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	o := &owner{cmd: exec.Command(exe, command)}
	o.cmd.Env = append(os.Environ(), modeEnv+"=owner")
	o.cmd.Stderr = os.Stderr
	out, err := o.cmd.StdoutPipe()
	must(t, err)
	o.out = bufio.NewReader(out)
	must(t, o.cmd.Start())
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
	})
	return o
}

func TestADeadOwnersWorkIsStoppedInTime(t *testing.T) {
	confined(t, aDeadOwnersWorkIsStoppedInTime)
}

func aDeadOwnersWorkIsStoppedInTime(t *testing.T, _ guard.Config) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, lineage(file, "trap \"\" TERM;"))
	all := lineagePIDs(t, file)
	guardPID := parent(t, all[0])
	begin := time.Now()
	must(t, o.cmd.Process.Kill())
	testkit.Eventually(t, "the end of all", func() bool {
		return !slices.ContainsFunc(append(all, guardPID), running)
	})
	// The stop timeout is 1 s.
	if took := time.Since(begin); took > ownerLease {
		t.Errorf("it took %v, longer than the lease", took)
	}
}

func TestAFrozenOwnersWorkEndsBeforeTheLease(t *testing.T) {
	confined(t, aFrozenOwnersWorkEndsBeforeTheLease)
}

func aFrozenOwnersWorkEndsBeforeTheLease(t *testing.T, _ guard.Config) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, lineage(file, "trap \"\" TERM;"))
	all := lineagePIDs(t, file)
	guardPID := parent(t, all[0])
	must(t, o.cmd.Process.Signal(syscall.SIGSTOP))
	frozen := time.Now()
	testkit.Eventually(t, "the end of the work", func() bool {
		return !slices.ContainsFunc(all, running)
	})
	if took := time.Since(frozen); took > ownerLease {
		t.Errorf("it took %v, longer than the lease", took)
	}
	if !running(guardPID) {
		t.Error("the guard process ended: it must wait for its owner")
	}
	must(t, o.cmd.Process.Signal(syscall.SIGCONT))
	line, err := o.out.ReadString('\n')
	if err != nil || !strings.Contains(line, "lease-ended") {
		t.Errorf("the owner, thawed, says %q (%v), want lease-ended", line, err)
	}
}

func TestADeadGuardsWorkEndsWithIt(t *testing.T) {
	f, ran := startMortal(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"),
		"trap \"\" TERM;")})
	all := pids(t, f.path("pids"), 3)
	guardPID := parent(t, all[0])
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	err := within(t, "the end", ended)
	if e := exitError(t, err); !errors.Is(err, guard.ErrLost) || e.Reason != guard.Lost {
		t.Errorf("got %v, want ErrLost", err)
	}
	wantGone(t, all...)
	if err := within(t, "the end of Run", ran); !errors.Is(err, guard.ErrLost) {
		t.Errorf("Run: got %v, want ErrLost", err)
	}
	if state(guardPID) != 0 {
		t.Error("the guard process is a zombie")
	}
}

func TestAFrozenGuardIsKilledBeforeTheLeaseEnds(t *testing.T) {
	f, ran := startMortal(t, guard.Config{})
	g := f.g
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"), ""),
		Stood: func(from, to time.Time) {
			t.Errorf("its work is said to have stood still with it, from %v to %v", from, to)
		}})
	all := pids(t, f.path("pids"), 3)
	must(t, syscall.Kill(parent(t, all[0]), syscall.SIGSTOP))
	// Its work is late when a quarter of the margin less a quarter of that is left: 7.5 s from now,
	// earlier than it counts as silent.
	until := time.Now().Add(30 * time.Second)
	g.Lease("s1", until, 2*time.Minute)
	if err := within(t, "the end", ended); !errors.Is(err, guard.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if late := time.Since(until); late > 0 {
		t.Errorf("ended %v after the lease", late)
	}
	wantGone(t, all...)
	if err := within(t, "the end of Run", ran); !errors.Is(err, guard.ErrLost) {
		t.Errorf("Run: got %v, want ErrLost", err)
	}
}

// As at a second SIGTERM: the owner ends when Kill has returned, and nobody is left who could stop
// them.
func TestKillEndsTheCommandsOfAGuardThatDoesNotAnswer(t *testing.T) {
	f, ran := startMortal(t, guard.Config{})
	g := f.g
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: lineage(f.path("pids"),
		"trap \"\" TERM;")})
	all := lineagePIDs(t, f.path("pids"))
	must(t, syscall.Kill(parent(t, all[0]), syscall.SIGSTOP))
	g.Kill(5 * time.Second)
	wantGone(t, all[:3]...) // the fourth cannot be told from others' processes without cgroups
	if err := within(t, "the end", ended); !errors.Is(err, guard.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	if err := within(t, "the end of Run", ran); !errors.Is(err, guard.ErrLost) {
		t.Errorf("Run: got %v, want ErrLost", err)
	}
}

// `pkill -9 -f NAME` and `kill -9 $(pidof NAME)` would kill both at once.
func TestWhoKillsTheOwnerByItsNameLeavesTheGuard(t *testing.T) {
	f := start(t, guard.Config{})
	f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	pid := strconv.Itoa(parent(t, pids(t, f.path("pids"), 1)[0]))
	for _, file := range []string{"comm", "cmdline"} {
		b, err := os.ReadFile(filepath.Join("/proc", pid, file))
		if err != nil || len(b) == 0 || strings.Contains(string(b), filepath.Base(os.Args[0])) {
			t.Errorf("%s: %q (%v), which has the owner's name", file, b, err)
		}
	}
}

func TestWhatADeadGuardAndADeadOwnerLeftGoesWithTheNextGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, family(file, ""))
	all := pids(t, file, 3)
	guardPID := parent(t, all[0])
	// Frozen first, so that neither sees the other die.
	for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	testkit.Eventually(t, "the end of the command's own process", func() bool {
		return !running(all[0])
	})
	for _, pid := range all[1:] {
		if !running(pid) {
			t.Errorf("process %d is gone already: this test shows nothing", pid)
		}
	}

	f := start(t, guard.Config{})
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}))
	// Without a lock its start does not wait for their end for longer than sweepLimit.
	testkit.Eventually(t, "the end of all", func() bool {
		return !slices.ContainsFunc(all, running)
	})
}

func TestTheGuardIsDeafToTheTerminalsSignals(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	guardPID := parent(t, pids(t, f.path("pids"), 1)[0])
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		must(t, syscall.Kill(guardPID, sig))
	}
	if sid, err := syscall.Getpgid(guardPID); err != nil || sid != guardPID {
		t.Errorf("process group of the guard: %d (%v), want its own, %d", sid, err, guardPID)
	}
	// Its commands are not deaf.
	for _, sig := range []string{"INT", "TERM", "HUP", "PIPE"} {
		err := f.Exec(t.Context(), guard.Spec{Name: sig, Command: "kill -" + sig + " $$; exit 9"})
		if e := exitError(t, err); e.Signal == 0 {
			t.Errorf("%s: got %v, want death by it", sig, err)
		}
	}
	if len(ended) != 0 {
		t.Errorf("the command ended: %v", <-ended)
	}
	cancel()
	within(t, "the end", ended)
}

func TestARunningCommandKeepsItsDaemons(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "w", Command: `
echo $$ >> ` + f.path("pids") + `
sh -c 'setsid sh -c "echo \$\$ >> ` + f.path("pids") + `; exec sleep 1000" &'
exec sleep 1001`})
	all := pids(t, f.path("pids"), 2)
	testkit.Eventually(t, "adoption by the guard", func() bool {
		return parent(t, all[1]) == parent(t, all[0])
	})
	// The end of another command is when strays are looked for.
	must(t, f.Exec(t.Context(), guard.Spec{Name: "other", Command: "true"}))
	for _, pid := range all {
		if !running(pid) {
			t.Errorf("process %d is gone", pid)
		}
	}
	cancel()
	within(t, "the end", ended)
	wantGone(t, all...)
}

func TestRunSaysWhatIsWrongWithItsGuard(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  guard.Config
		want string
	}{
		"no such program": {guard.Config{Argv: []string{"/no/such/program"}}, "no such file"},
		"another program": {guard.Config{Argv: []string{"/bin/sh", "-c", "exit 2"}},
			"exit status 2"},
		"no argv":  {guard.Config{Argv: []string{}}, "Argv is empty"},
		"negative": {guard.Config{StopTimeout: -1}, "negative"},
	} {
		if err := guard.New(tt.cfg).Run(t.Context()); err == nil || !strings.Contains(err.Error(),
			tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// Elsewhere there may be one. Nobody is kept from it by an owner that runs nothing anyway.
func TestWhereNoGuardProcessStartsAnOwnerWithACommandGivesUp(t *testing.T) {
	for name, argv := range map[string][]string{
		"no such program": {"/no/such/program"},
		"another program": {"/bin/sh", "-c", "exit 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{t: t, g: guard.New(guard.Config{Argv: argv})}
			f.g.StuckAfter(time.Millisecond)
			for n := range 10 {
				if err := f.g.Run(t.Context()); errors.Is(err, guard.ErrStuck) {
					t.Fatalf("without a command: %v, after %d", err, n+1)
				}
			}
			f.up = t.Context()
			ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "true"})
			testkit.Eventually(t, "the end", func() bool {
				return errors.Is(f.g.Run(t.Context()), guard.ErrStuck)
			})
			select {
			case err := <-ended:
				t.Errorf("Exec has returned %v", err)
			default:
			}
		})
	}
}

// One that comes up ends the count of those that did not.
func TestAGuardProcessThatStartsAfterManyThatDidNotIsNoReasonToGiveUp(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	able := filepath.Join(t.TempDir(), "able")
	f := &fixture{t: t, dir: t.TempDir(), g: guard.New(guard.Config{Argv: []string{"/bin/sh", "-c",
		"[ -e " + able + " ] && exec " + exe + " guard; exit 2"}})}
	f.g.StuckAfter(time.Millisecond)
	for range 10 {
		if err := f.g.Run(t.Context()); err == nil || errors.Is(err, guard.ErrStuck) {
			t.Fatal(err)
		}
	}
	if lack := f.g.Lack(); lack > 0 {
		t.Errorf("%v count against the next one, and nothing waits", lack)
	}
	must(t, os.WriteFile(able, nil, 0o600))
	f.g.StuckAfter(time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	ran := f.run(ctx)
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}))
	stop()
	must(t, within(t, "the end of Run", ran))
	must(t, os.Remove(able))
	f.g.StuckAfter(time.Millisecond)
	f.up = t.Context()
	f.exec(t.Context(), guard.Spec{Name: "w", Command: "true"})
	testkit.Eventually(t, "that waits", func() bool { return f.g.Waiting() == 1 })
	time.Sleep(time.Millisecond) // the time to give up
	if err := f.g.Run(t.Context()); err == nil || errors.Is(err, guard.ErrStuck) {
		t.Error(err)
	}
}

func TestRunIsForOneAtATime(t *testing.T) {
	f := start(t, guard.Config{})
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}))
	if err := f.g.Run(t.Context()); err == nil || !strings.Contains(err.Error(),
		"running already") {
		t.Errorf("got %v", err)
	}
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Errorf("the first Run suffered: %v", err)
	}
}

func TestTheGuardCommandIsNotForUseByHand(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	out, err := exec.Command(exe, "guard").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out),
		"not for use by hand") {
		t.Errorf("got %v, %q", err, out)
	}
}

// An owner that has no descriptor left sees no process: that is no word that none is left.
func TestWhatADeadGuardLeftIsNotCalledGoneByAnOwnerThatCannotLook(t *testing.T) {
	f := start(t, guard.Config{NoCgroups: true})
	ended := f.exec(t.Context(),
		guard.Spec{Name: "w", Command: "sleep 1000 & echo $$ $! | tr ' ' '\\n' >> " +
			f.path("pids") + "; wait"})
	all := pids(t, f.path("pids"), 2)
	guardPID := parent(t, all[0])
	see := guard.Unseeing(t)
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	select {
	case err := <-ended:
		see()
		if running(all[1]) {
			t.Errorf("process %d runs, and Exec said %v", all[1], err)
			_ = syscall.Kill(all[1], syscall.SIGKILL)
		}
		return
	case <-time.After(500 * time.Millisecond):
	}
	see()
	if err := within(t, "the end", ended); !errors.Is(err, guard.ErrLost) {
		t.Errorf("got %v, want %v", err, guard.ErrLost)
	}
	wantGone(t, all...)
}
