//go:build linux

package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/output"
	"github.com/coordd/coordd/internal/testkit"
)

// modeEnv makes this test binary be something else: a guard process, or an owner to be killed.
const modeEnv = "GUARD_TEST_MODE"

// lockEnv is the lock file of an owner to be killed.
const lockEnv = "GUARD_TEST_LOCK"

// noCgroupsEnv is such an owner's Config.NoCgroups.
const noCgroupsEnv = "GUARD_TEST_NO_CGROUPS"

// outputEnv has such an owner's output prefixed.
const outputEnv = "GUARD_TEST_OUTPUT"

// goodbyeEnv is what an owner to be killed wants said: FILE, and what is asked of say.
const goodbyeEnv = "GUARD_TEST_GOODBYE"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		os.Exit(guard.Main(say))
	}
	switch os.Getenv(modeEnv) {
	case "owner":
		ownerMain()
		return
	case "check":
		fmt.Println(guard.CheckHost())
		return
	}
	// The race detector's runtime sleeps a second at the end of every process, guards included.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// ownerMain is a coordd in small: it runs the command in its arguments under ownerLease, renewed,
// and prints how it ended.
func ownerMain() {
	cfg := guard.Config{StopTimeout: time.Second, LockFile: os.Getenv(lockEnv),
		NoCgroups: os.Getenv(noCgroupsEnv) != ""}
	if os.Getenv(outputEnv) != "" {
		cfg.Output.To = output.Prefix
	}
	g := guard.New(cfg)
	ctx := context.Background()
	go func() { _ = g.Run(ctx) }()
	if words := os.Getenv(goodbyeEnv); words != "" {
		wait, _ := time.ParseDuration(os.Getenv(goodbyeEnv + "_WAIT"))
		g.Goodbye(guard.Goodbye{Words: []byte("another's"), Wait: time.Hour, Limit: time.Hour})
		g.Goodbye(guard.Goodbye{Words: []byte(words), Wait: wait, Limit: 30 * time.Minute})
	}
	renew := func() { g.Lease("s1", time.Now().Add(ownerLease), ownerMargin) }
	renew()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			renew()
		}
	}()
	// A command comes by another pipe than the goodbye: it is not to be there first.
	for !g.Taken() {
		time.Sleep(time.Millisecond)
	}
	err := g.Exec(ctx, guard.Spec{Name: "w", Command: os.Args[1]})
	fmt.Println("ended", err)
	select {}
}

// The lease of the owner that the tests start, at each renewal. A busy machine may be late with a
// renewal by their difference. Commands that ignore TERM are killed a stop timeout, 1 s, after the
// margin has begun: the rest of it is what a busy machine has to end them and to notice it.
const ownerLease, ownerMargin = 50 * time.Second, 45 * time.Second

// say is the guard process's part of a goodbye. The words are a file to write to, and then, for
// "running", one with process ids: it says which of those run. For "hang" it says that it has
// begun, and returns when it has to.
func say(ctx context.Context, words []byte) {
	file, rest, _ := strings.Cut(string(words), " ")
	how, of, _ := strings.Cut(rest, " ")
	text := "said"
	switch how {
	case "running":
		b, _ := os.ReadFile(of)
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && running(pid) {
				text += " while " + f + " runs"
			}
		}
	case "hang":
		_ = os.WriteFile(file+".begun", nil, 0o600)
		<-ctx.Done()
		text = "cut short"
	}
	_ = os.WriteFile(file, []byte(text), 0o600)
}

// fixture is a guard that runs, with a lease that lasts.
type fixture struct {
	t    *testing.T
	g    *guard.Guard
	dir  string
	up   context.Context // done when Run has ended, with what it said as the cause
	stop func() error    // ends Run and returns what it said
}

func start(t *testing.T, cfg guard.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, g: guard.New(cfg), dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	ran := f.run(ctx)
	f.stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = f.stop() })
	return f
}

// startMortal is start for a guard process that is going to die: ran tells what Run said.
func startMortal(t *testing.T, cfg guard.Config) (f *fixture, ran <-chan error) {
	t.Helper()
	f = &fixture{t: t, g: guard.New(cfg), dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = sync.OnceValue(func() error { cancel(); return nil })
	return f, f.run(ctx)
}

func (f *fixture) run(ctx context.Context) <-chan error {
	up, over := context.WithCancelCause(context.Background())
	f.up = up
	f.g.Lease("s1", time.Now().Add(time.Hour), time.Second)
	ran := make(chan error, 1)
	go func() {
		err := f.g.Run(ctx)
		over(fmt.Errorf("Run has ended, and nobody calls it again: %w", err))
		ran <- err
	}()
	return ran
}

// Exec is that of the guard, which waits for the next Run: here none may come.
func (f *fixture) Exec(ctx context.Context, s guard.Spec) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	up := f.up
	defer context.AfterFunc(up, func() { cancel(context.Cause(up)) })()
	return f.g.Exec(ctx, s)
}

// path names a file in which commands leave their process ids.
func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

// exec runs a command in the background.
func (f *fixture) exec(ctx context.Context, s guard.Spec) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f.Exec(ctx, s) }()
	return ended
}

// bothWays runs a test with a cgroup for each command and with process groups. Where this machine
// has cgroups to write to and the guard process does not use them, it fails.
func bothWays(t *testing.T, test func(t *testing.T, cfg guard.Config)) {
	t.Run("cgroups", func(t *testing.T) {
		if err := cgroupsHere(); err != nil {
			t.Logf("this machine offers none: %v", err)
			return
		}
		test(t, guard.Config{})
	})
	t.Run("process groups", func(t *testing.T) {
		t.Setenv(noCgroupsEnv, "1")
		test(t, guard.Config{NoCgroups: true})
	})
}

func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testkit.Patience):
		t.Fatalf("%s: not within %v", what, testkit.Patience)
		panic("unreachable")
	}
}

// pids reads the process ids in a file once it has n of them. Those that a failing test leaves end
// with it: go test waits for whoever has its output open.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var got []int
	testkit.Eventually(t, fmt.Sprintf("%d process ids in %s", n, filepath.Base(file)), func() bool {
		b, _ := os.ReadFile(file)
		got = got[:0]
		for line := range strings.Lines(string(b)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil &&
				strings.HasSuffix(line, "\n") {
				got = append(got, pid)
			}
		}
		return len(got) >= n
	})
	for _, pid := range got {
		if group, err := syscall.Getpgid(pid); err == nil && group != syscall.Getpgrp() {
			t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
		}
	}
	return got
}

// state is the letter of /proc/PID/stat, 0 when there is no such process.
func state(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return b[bytes.LastIndexByte(b, ')')+2]
}

// freeze stops processes, and returns when no thread of theirs runs: SIGSTOP is delivered at once,
// and obeyed by each thread in its own time.
func freeze(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	for _, pid := range pids {
		testkit.Eventually(t, fmt.Sprintf("the halt of process %d", pid), func() bool {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			must(t, err)
			return !slices.ContainsFunc(threads, func(file string) bool {
				b, err := os.ReadFile(file)
				return err == nil && b[bytes.LastIndexByte(b, ')')+2] != 'T'
			})
		})
	}
}

func running(pid int) bool { s := state(pid); return s != 0 && s != 'Z' && s != 'X' }

func parent(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	ppid, err := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1])
	must(t, err)
	return ppid
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d still runs, state %c", pid, state(pid))
		}
	}
}

func exitError(t *testing.T, err error) *guard.ExitError {
	t.Helper()
	var e *guard.ExitError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *ExitError", err)
	}
	return e
}

// family is a shell with three children: one in its group, one in a session of its own, and one
// that has cleared its environment as well. All of them leave their process id in file, the shell
// first, and ignore what trap says.
func family(file, trap string) string {
	return trap + `
echo $$ >> ` + file + `
sh -c 'echo $$ >> ` + file + `; sleep 1000; :' &
setsid sh -c 'echo $$ >> ` + file + `; sleep 1001; :' &
env -i PATH="$PATH" setsid sh -c '` + trap + `echo $$ >> ` + file + `; sleep 1002; :' &
wait`
}

// familySize is how many process ids a family leaves.
const familySize = 4

var must = testkit.Must
