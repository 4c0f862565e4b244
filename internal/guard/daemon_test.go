//go:build linux

package guard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/guard"
)

// daemon is a command that goes on after it has started a daemon: one with a session of its own,
// another parent, and nothing in its environment. Their process ids go to file, the command's
// first.
func daemon(file string) string {
	return `echo $$ >> ` + file + `
env -i PATH="$PATH" setsid sh -c 'trap "" TERM; (echo $(exec sh -c "echo \$PPID") >> ` +
		file + `; while :; do sleep 0.05; done) &'
while :; do sleep 0.05; done`
}

func TestTheEndOfOneCommandLeavesTheDaemonOfAnother(t *testing.T) {
	confined(t, theEndOfOneCommandLeavesTheDaemonOfAnother)
}

func theEndOfOneCommandLeavesTheDaemonOfAnother(t *testing.T, cfg guard.Config) {
	cfg.StopTimeout = 200 * time.Millisecond
	f := start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "a", Command: daemon(f.path("pids"))})
	all := pids(t, f.path("pids"), 2)
	must(t, f.Exec(t.Context(), guard.Spec{Name: "b", Command: "true"}))
	for _, pid := range all {
		if !running(pid) {
			t.Errorf("process %d of a ended with b", pid)
		}
	}
	cancel()
	within(t, "the end", ended)
	wantGone(t, all...)
}

// underALimit has an administrator's limit in the place of those by which commands are known.
func underALimit(t *testing.T) {
	t.Helper()
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(unix.RLIMIT_RTTIME, &old))
	must(t, syscall.Setrlimit(unix.RLIMIT_RTTIME, &syscall.Rlimit{Cur: 1 << 50, Max: old.Max}))
	t.Cleanup(func() { must(t, syscall.Setrlimit(unix.RLIMIT_RTTIME, &old)) })
}

// Not knowing whose it is, it ends what it cannot tell apart: that nothing of b is left matters
// more. So it is under another's limit.
func TestADaemonThatCannotBeToldApartEndsWithTheFirstCommand(t *testing.T) {
	underALimit(t)
	f := start(t, guard.Config{NoCgroups: true})
	ended := f.exec(t.Context(), guard.Spec{Name: "a", Command: daemon(f.path("pids"))})
	all := pids(t, f.path("pids"), 2)
	must(t, f.Exec(t.Context(), guard.Spec{Name: "b", Command: "true"}))
	wantGone(t, all[1])
	if !running(all[0]) {
		t.Error("a itself ended with b")
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	within(t, "the end", ended)
}

// A daemon ends well if it can: TERM comes first, and KILL for those that ignore it.
func TestADaemonInItsCommandsCgroupIsAskedToEndFirst(t *testing.T) {
	needCgroups(t)
	f := start(t, guard.Config{StopTimeout: 10 * time.Second})
	out := f.path("out")
	err := f.Exec(t.Context(), guard.Spec{Name: "a", Command: `
env -i PATH="$PATH" setsid sh -c '(trap "echo asked >> ` + out + `; exit" TERM; echo ready >> ` +
		out + `; while :; do sleep 0.05; done) &'
while ! grep -qs ready ` + out + `; do sleep 0.01; done`})
	must(t, err)
	if b, err := os.ReadFile(out); err != nil || strings.Count(string(b), "asked") != 1 {
		t.Errorf("the daemon wrote %q (%v), want one asked", b, err)
	}
}

func TestAKilledGuardLeavesNoDaemon(t *testing.T) {
	for _, c := range []struct{ name, env string }{{"with cgroups", ""}, {"adopted", adoptEnv}} {
		t.Run(c.name, func(t *testing.T) {
			if c.env == "" {
				needCgroups(t)
			} else {
				t.Setenv(noCgroupsEnv, "1")
				t.Setenv(c.env, "1")
			}
			killedGuardLeavesNoDaemon(t, func(*owner) {})
		})
	}
}

// An owner that adopts what its guard process leaves needs no descriptor to find and end it.
func TestAKilledGuardLeavesNoDaemonToAnOwnerWithoutDescriptors(t *testing.T) {
	confined(t, func(t *testing.T, _ guard.Config) {
		t.Setenv(adoptEnv, "1")
		killedGuardLeavesNoDaemon(t, func(o *owner) {
			few := unix.Rlimit{Cur: 3, Max: 3}
			must(t, unix.Prlimit(o.cmd.Process.Pid, unix.RLIMIT_NOFILE, &few, nil))
		})
	})
}

// killedGuardLeavesNoDaemon has before called with the owner before its guard process is killed.
func killedGuardLeavesNoDaemon(t *testing.T, before func(o *owner)) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, daemon(file))
	all := pids(t, file, 2)
	guardPID := parent(t, all[0])
	before(o)
	must(t, syscall.Kill(guardPID, syscall.SIGKILL))
	line, err := o.out.ReadString('\n')
	must(t, err)
	for _, pid := range all {
		if running(pid) {
			t.Errorf("process %d runs, and the owner said %q", pid, line)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Not every kernel is built with CONFIG_PROC_CHILDREN.
func TestDaemonsAreFoundWhereTheKernelListsNoChildren(t *testing.T) {
	t.Setenv(childlessEnv, "1")
	t.Setenv(noCgroupsEnv, "1")
	t.Run("at the end of their command", func(t *testing.T) {
		leftBehindEnds(t, guard.Config{NoCgroups: true})
	})
	t.Run("of a killed guard", func(t *testing.T) {
		t.Setenv(adoptEnv, "1")
		killedGuardLeavesNoDaemon(t, func(*owner) {})
	})
}

func TestAChildThatIsNoneOfTheGuardsIsLeftAlone(t *testing.T) {
	t.Setenv(adoptEnv, "1")
	dir := t.TempDir()
	file, foreign := filepath.Join(dir, "pids"), filepath.Join(dir, "foreign")
	t.Setenv(foreignEnv, foreign)
	o := startOwner(t, "echo $$ >> "+file+"; exec sleep 1000")
	its, other := pids(t, file, 1)[0], pids(t, foreign, 1)[0]
	must(t, syscall.Kill(parent(t, its), syscall.SIGKILL))
	if _, err := o.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	wantGone(t, its)
	if !running(other) {
		t.Error("the other child is gone")
	}
	_ = syscall.Kill(other, syscall.SIGKILL)
}

// Nobody is left to look after them but who comes next.
func TestTheDaemonsOfADeadGuardAndItsDeadOwnerEndWithTheNextGuard(t *testing.T) {
	confined(t, daemonsEndWithTheNextGuard)
}

func daemonsEndWithTheNextGuard(t *testing.T, cfg guard.Config) {
	dir := t.TempDir()
	file, lock := filepath.Join(dir, "pids"), filepath.Join(dir, "lock")
	// The last one is no daemon: it only has nothing in its environment, as a program that writes
	// its title over it.
	o := lockOwner(t, lock, `env -i PATH="$PATH" sh -c 'echo $$ >> `+file+
		`.untitled; sleep 1000; :' &
`+daemon(file))
	all := append(pids(t, file, 2), pids(t, file+".untitled", 1)...)
	guardPID := parent(t, all[0])
	var cgroup string
	if !cfg.NoCgroups {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", all[0]))
		must(t, err)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		i := slices.IndexFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "0::")
		})
		cgroup = filepath.Base(filepath.Dir(lines[i]))
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range []int{o.cmd.Process.Pid, guardPID} {
			must(t, syscall.Kill(pid, sig))
		}
	}
	f, _ := locking(t, lock)
	f.locked()
	wantGone(t, all...)
	if cfg.NoCgroups {
		return
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(f.g.Cgroup()), cgroup)); !os.IsNotExist(err) {
		t.Errorf("the cgroup %s is left: %v", cgroup, err)
	}
}
