//go:build linux

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	bothWays(t, aDeadOwnersWorkIsStoppedInTime)
}

func aDeadOwnersWorkIsStoppedInTime(t *testing.T, _ guard.Config) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, family(file, "trap \"\" TERM;"))
	all := pids(t, file, familySize)
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
	bothWays(t, aFrozenOwnersWorkEndsBeforeTheLease)
}

func aFrozenOwnersWorkEndsBeforeTheLease(t *testing.T, _ guard.Config) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, family(file, "trap \"\" TERM;"))
	all := pids(t, file, familySize)
	guardPID := parent(t, all[0])
	freeze(t, o.cmd.Process.Pid)
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

func TestRunSaysWhatIsWrongWithItsGuard(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  guard.Config
		want string
	}{
		"no such program": {guard.Config{Argv: []string{"/no/such/program"}}, "no such file"},
		"another program": {guard.Config{Argv: []string{"/bin/sh", "-c", "exit 2"}},
			"exit status 2"},
	} {
		if err := guard.New(tt.cfg).Run(t.Context()); err == nil || !strings.Contains(err.Error(),
			tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
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

// By the kernel, and by an owner that lives.
func TestADeadGuardsWorkEndsWithIt(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		f, ran := startMortal(t, cfg)
		ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"),
			"trap \"\" TERM;")})
		all := pids(t, f.path("pids"), familySize)
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
	})
}

func TestAFrozenGuardIsKilledBeforeTheLeaseEnds(t *testing.T) {
	f, ran := startMortal(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"), ""),
		Stood: func(from, to time.Time) {
			t.Errorf("its work is said to have stood still with it, from %v to %v", from, to)
		}})
	all := pids(t, f.path("pids"), familySize)
	freeze(t, parent(t, all[0]))
	// Its work is late when a quarter of the margin less a quarter of that is left: 3.75 s
	// from now, earlier than it counts as silent.
	until := time.Now().Add(15 * time.Second)
	f.g.Lease("s1", until, time.Minute)
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
func TestKillEndsAllAtOnceWhateverTheGuardProcessDoes(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		bothWays(t, func(t *testing.T, cfg guard.Config) {
			cfg.StopTimeout = time.Hour
			f, ran := startMortal(t, cfg)
			ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"),
				"trap \"\" TERM;")})
			all := pids(t, f.path("pids"), familySize)
			limit := testkit.Patience
			if frozen {
				freeze(t, parent(t, all[0]))
				limit = time.Second
			}
			f.g.Kill(limit)
			wantGone(t, all...)
			err := within(t, "the end", ended)
			if errors.Is(err, guard.ErrLost) != frozen {
				t.Errorf("frozen %v: %v", frozen, err)
			}
			if frozen {
				within(t, "the end of Run", ran)
				if err := f.g.Run(t.Context()); !errors.Is(err, guard.ErrStuck) {
					t.Errorf("the next Run: %v", err)
				}
				return
			}
			if e := exitError(t, err); e.Signal != syscall.SIGKILL || e.Reason != guard.Stopped {
				t.Errorf("got %#v, want SIGKILL, stopped", e)
			}
			_ = f.stop()
			must(t, within(t, "the end of Run", ran))
		})
	}
}

// Where there are cgroups, the successor kills all that is left; elsewhere the kernel kills the
// command's own process.
func TestWhatADeadGuardAndADeadOwnerLeftIsGoneWhenTheSuccessorHasTheLock(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		lock, file := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "pids")
		o := lockOwner(t, lock, family(file, ""))
		all := pids(t, file, familySize)
		// Frozen first, so that neither sees the other die.
		both := []int{o.cmd.Process.Pid, parent(t, all[0])}
		freeze(t, both...)
		for _, pid := range both {
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
		cfg.LockFile = lock
		start(t, cfg).locked()
		if !cfg.NoCgroups {
			wantGone(t, all...)
		}
	})
}

// As one of which a thread waits for a disk, or that its cgroup keeps frozen: what it has started
// is killed beside it. What had left its session is not, without cgroups.
func TestTheWorkOfAGuardThatDoesNotDieEndsWithTheLease(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		f := &fixture{t: t, g: guard.New(cfg), dir: t.TempDir()}
		f.g.Undying()
		ran := f.run(t.Context())
		ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"), "")})
		all := pids(t, f.path("pids"), familySize)
		guardPID := parent(t, all[0])
		if cfg.NoCgroups {
			all = slices.DeleteFunc(all, func(pid int) bool {
				group, err := syscall.Getpgid(pid)
				return err == nil && group != all[0]
			})
		}
		freeze(t, guardPID)
		until := time.Now().Add(10 * time.Second)
		f.g.Lease("s1", until, 36*time.Second) // its work is late 6.75 s before
		testkit.Eventually(t, "the end of all", func() bool {
			return !slices.ContainsFunc(all, running)
		})
		if late := time.Since(until); late > 0 {
			t.Errorf("it ended %v after the lease", late)
		}
		select {
		case err := <-ended:
			t.Errorf("Exec has returned %v beside a guard process that is there", err)
		case <-time.After(100 * time.Millisecond):
		}
		must(t, syscall.Kill(guardPID, syscall.SIGKILL))
		for what, c := range map[string]<-chan error{"Exec": ended, "Run": ran} {
			if err := within(t, "the end of "+what, c); !errors.Is(err, guard.ErrLost) ||
				errors.Is(err, guard.ErrStuck) {
				t.Errorf("%s: got %v, want %v", what, err, guard.ErrLost)
			}
		}
	})
}

func TestAnOwnerGivesUpWhoseGuardDoesNotDie(t *testing.T) {
	f := &fixture{t: t, g: guard.New(guard.Config{StopTimeout: time.Millisecond}), dir: t.TempDir()}
	f.g.Undying()
	f.g.StuckAfter(300 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := f.run(ctx)
	must(t, f.Exec(t.Context(), guard.Spec{Name: "w", Command: "echo $PPID >" + f.path("guard")}))
	guardPID := pids(t, f.path("guard"), 1)[0]
	freeze(t, guardPID)
	cancel()
	if err := within(t, "the end of Run", ran); !errors.Is(err, guard.ErrStuck) {
		t.Errorf("Run: got %v, want %v", err, guard.ErrStuck)
	}
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	testkit.Eventually(t, "its end", func() bool { return !running(guardPID) })
}

// Elsewhere there may be one. Nobody is kept from it by an owner that runs nothing anyway.
func TestWhereNoGuardProcessStartsAnOwnerWithACommandGivesUp(t *testing.T) {
	for name, argv := range map[string][]string{
		"no such program": {"/no/such/program"},
		"another program": {"/bin/sh", "-c", "exit 2"},
		"no answer":       {"/bin/sleep", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{t: t, g: guard.New(guard.Config{Argv: argv})}
			f.g.StuckAfter(time.Second)
			for n := range 3 {
				if err := f.g.Run(t.Context()); err == nil || errors.Is(err, guard.ErrStuck) {
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

// In a cgroup of its own, or by its variables. One that nobody can tell ends with any command.
func TestTheEndOfOneCommandLeavesTheDaemonsOfAnother(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		f := start(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := f.exec(ctx, guard.Spec{Name: "w", Env: []string{"ITEM=w"}, Command: `
echo $$ >> ` + f.path("pids") + `
sh -c 'setsid sh -c "echo \$\$ >> ` + f.path("pids") + `; exec sleep 1000" &'
sh -c 'env -i setsid sh -c "echo \$\$ >> ` + f.path("cleared") + `; exec sleep 1000" &'
exec sleep 1001`})
		all, cleared := pids(t, f.path("pids"), 2), pids(t, f.path("cleared"), 1)[0]
		testkit.Eventually(t, "adoption by the guard", func() bool {
			return parent(t, all[1]) == parent(t, all[0]) && parent(t, cleared) == parent(t, all[0])
		})
		must(t, f.Exec(t.Context(), guard.Spec{Name: "v", Env: []string{"ITEM=v"},
			Command: "true"}))
		for _, pid := range all {
			if !running(pid) {
				t.Errorf("process %d is gone", pid)
			}
		}
		if running(cleared) == cfg.NoCgroups {
			t.Errorf("the one that cleared its environment runs: %v", running(cleared))
		}
		cancel()
		within(t, "the end", ended)
		wantGone(t, append(all, cleared)...)
	})
}

func TestCommandsBeginWithNoSignalBlocked(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var blocked, was unix.Sigset_t
	blocked.Val[0] = 1<<(unix.SIGUSR1-1) | 1<<(unix.SIGUSR2-1)
	must(t, unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &was))
	defer func() { must(t, unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil)) }()
	out := filepath.Join(t.TempDir(), "out")
	startOwner(t, "grep SigBlk /proc/self/status >"+out) // it has what this thread has
	want := "SigBlk:\t0000000000000000\n"
	testkit.Eventually(t, "its mask", func() bool {
		b, _ := os.ReadFile(out)
		return len(b) == len(want)
	})
	if b, _ := os.ReadFile(out); string(b) != want {
		t.Errorf("%s, want none", b)
	}
}
