//go:build linux

package guard_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
)

// modeEnv makes this test binary be something else: a guard process, or an owner to be killed.
const modeEnv = "GUARD_TEST_MODE"

// patience is how long a test waits for what must happen; only a failing one uses it up.
const patience = 10 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		os.Exit(guard.Main())
	}
	if os.Getenv(modeEnv) == "owner" {
		ownerMain()
		return
	}
	// The race detector's runtime sleeps a second at the end of every process, guards included.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// ownerMain is a coordd in small: it runs the command in its arguments under a lease of 2 s with a
// margin of 1 s, renewed, and prints how it ended.
func ownerMain() {
	g := guard.New(guard.Config{StopTimeout: time.Second})
	ctx := context.Background()
	go func() { _ = g.Run(ctx) }()
	renew := func() { g.Lease(time.Now().Add(2*time.Second), time.Second) }
	renew()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			renew()
		}
	}()
	err := g.Exec(ctx, guard.Spec{Name: "w", Command: os.Args[1]})
	fmt.Println("ended", err)
	select {}
}

// fixture is a guard that runs, with a lease that lasts.
type fixture struct {
	t    *testing.T
	g    *guard.Guard
	dir  string
	stop func() error // ends Run and returns what it said
}

func start(t *testing.T, cfg guard.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, g: guard.New(cfg), dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- f.g.Run(ctx) }()
	f.stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = f.stop() })
	f.g.Lease(time.Now().Add(time.Hour), time.Second)
	return f
}

// path names a file in which commands leave their process ids.
func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

// exec runs a command in the background.
func (f *fixture) exec(ctx context.Context, s guard.Spec) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f.g.Exec(ctx, s) }()
	return ended
}

func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// pids reads the process ids in a file once it has n of them.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var got []int
	eventually(t, fmt.Sprintf("%d process ids in %s", n, filepath.Base(file)), func() bool {
		b, _ := os.ReadFile(file)
		got = got[:0]
		for line := range strings.Lines(string(b)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
				got = append(got, pid)
			}
		}
		return len(got) >= n
	})
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

func running(pid int) bool { s := state(pid); return s != 0 && s != 'Z' && s != 'X' }

func parent(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
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

func TestExecTellsHowTheCommandEnded(t *testing.T) {
	f := start(t, guard.Config{})
	for _, tt := range []struct {
		command string
		code    int
		signal  syscall.Signal
		text    string
	}{
		{"true", 0, 0, ""},
		{"exit 3", 3, 0, "exit code 3"},
		{"kill -USR1 $$", -1, syscall.SIGUSR1, "signal 10"},
		{"/no/such/program", 127, 0, "not found"},
		{"/dev/null", 126, 0, "cannot be executed"},
	} {
		err := f.g.Exec(t.Context(), guard.Spec{Name: tt.command, Command: tt.command})
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: got %v, want nil", tt.command, err)
			}
			continue
		}
		e := exitError(t, err)
		if e.Code != tt.code || e.Signal != tt.signal || e.Reason != guard.Ended || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %#v (%v), want code %d, signal %d, %q", tt.command, e, err, tt.code, tt.signal, tt.text)
		}
	}
}

func TestPayloadIsTheWholeOfStandardInput(t *testing.T) {
	f := start(t, guard.Config{})
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MB
	for name, payload := range map[string][]byte{"none": nil, "binary": {0, 255, 10}, "big": big} {
		out := f.path(name)
		if err := f.g.Exec(t.Context(), guard.Spec{Name: name, Command: "cat > " + out, Stdin: payload}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%s: %d bytes arrived (%v), want %d", name, len(got), err, len(payload))
		}
	}
	if err := f.g.Exec(t.Context(), guard.Spec{Name: "unread", Command: "true", Stdin: big}); err != nil {
		t.Errorf("a command that does not read its payload: %v", err)
	}
}

func TestEnvironmentIsTheOwnersAndTheSpecsOnTop(t *testing.T) {
	t.Setenv("GUARD_TEST_KEPT", "kept")
	t.Setenv("COORDD_ITEM", "overridden")
	f := start(t, guard.Config{})
	out := f.path("out")
	err := f.g.Exec(t.Context(), guard.Spec{
		Name:    "env",
		Command: `printf '%s|%s|%s' "$GUARD_TEST_KEPT" "$COORDD_ITEM" "$COORDD_TOKEN" > ` + out,
		Env:     []string{"COORDD_ITEM=a b\xff\n$x", "COORDD_TOKEN=1", "COORDD_TOKEN=42"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(out); string(got) != "kept|a b\xff\n$x|42" {
		t.Errorf("got %q", got)
	}
}

func TestOutputGoesWhereTheOwnersDoes(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := start(t, guard.Config{Stdout: out, Stderr: out})
	if err := f.g.Exec(t.Context(), guard.Spec{Name: "w", Command: "echo one; echo two >&2"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(out.Name()); string(got) != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func TestStopIsTermFirst(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{
		Name:    "w",
		Command: `trap 'exit 7' TERM; echo $$ >> ` + f.path("pids") + `; while :; do sleep 0.01; done`,
	})
	pid := pids(t, f.path("pids"), 1)[0]
	cancel()
	e := exitError(t, within(t, "the end", ended))
	if e.Code != 7 || e.Reason != guard.Stopped {
		t.Errorf("got %#v, want code 7, stopped", e)
	}
	wantGone(t, pid)
}

func TestStopIsKillAfterTheStopTimeout(t *testing.T) {
	const timeout = 300 * time.Millisecond
	f := start(t, guard.Config{StopTimeout: timeout})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{
		Name:    "w",
		Command: `trap '' TERM; echo $$ >> ` + f.path("pids") + `; while :; do sleep 1; done`,
	})
	pid := pids(t, f.path("pids"), 1)[0]
	begin := time.Now()
	cancel()
	e := exitError(t, within(t, "the end", ended))
	if e.Signal != syscall.SIGKILL || e.Reason != guard.Stopped {
		t.Errorf("got %#v, want killed, stopped", e)
	}
	if took := time.Since(begin); took < timeout {
		t.Errorf("killed after %v, before the stop timeout of %v", took, timeout)
	}
	wantGone(t, pid)
}

// family is a shell with a child in its group and one in a session of its own; all of them leave
// their process id in file, the shell first, and ignore what trap says.
func family(file, trap string) string {
	return trap + `
echo $$ >> ` + file + `
sh -c 'echo $$ >> ` + file + `; sleep 1000; :' &
setsid sh -c 'echo $$ >> ` + file + `; sleep 1001; :' &
wait`
}

// lineage is a family of four: one more has a session of its own and no environment to know it by.
func lineage(file, trap string) string {
	return `env -i PATH="$PATH" setsid sh -c '` + trap + `echo $$ >> ` + file + `.unmarked; sleep 1002; :' &
` + family(file, trap)
}

// lineagePIDs waits for all of a lineage; the first is the shell.
func lineagePIDs(t *testing.T, file string) []int {
	t.Helper()
	return append(pids(t, file, 3), pids(t, file+".unmarked", 1)...)
}

func TestNothingOfACommandOutlivesItsStop(t *testing.T) {
	for name, trap := range map[string]string{"obedient": "", "stubborn": "trap \"\" TERM;"} {
		t.Run(name, func(t *testing.T) {
			f := start(t, guard.Config{StopTimeout: 200 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			ended := f.exec(ctx, guard.Spec{Name: "w", Command: lineage(f.path("pids"), trap)})
			all := lineagePIDs(t, f.path("pids"))
			cancel()
			within(t, "the end", ended)
			wantGone(t, all...)
		})
	}
}

func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	f := start(t, guard.Config{StopTimeout: 200 * time.Millisecond})
	// One that ignores SIGTERM in the group, and a daemon.
	err := f.g.Exec(t.Context(), guard.Spec{Name: "w", Command: `
: > ` + f.path("pids") + `
sh -c 'trap "" TERM; echo $$ >> ` + f.path("pids") + `; while :; do sleep 1; done' &
setsid sh -c 'echo $$ >> ` + f.path("pids") + `; sleep 1000; :' &
while [ $(wc -l < ` + f.path("pids") + `) -lt 2 ]; do sleep 0.01; done; exit 5`})
	if e := exitError(t, err); e.Code != 5 || e.Reason != guard.Ended {
		t.Errorf("got %#v, want code 5, ended", e)
	}
	wantGone(t, pids(t, f.path("pids"), 2)...)
}

func TestALeaseThatEndsStopsTheWorkBeforeItsEnd(t *testing.T) {
	f := start(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: lineage(f.path("pids"), "trap \"\" TERM;")})
	all := lineagePIDs(t, f.path("pids"))
	until := time.Now().Add(900 * time.Millisecond)
	f.g.Lease(until, 600*time.Millisecond)
	e := exitError(t, within(t, "the end", ended))
	if now := time.Now(); now.After(until) {
		t.Errorf("ended %v after the lease", now.Sub(until))
	} else if now.Before(until.Add(-600 * time.Millisecond)) {
		t.Errorf("ended %v before the lease, which is before its margin", until.Sub(now))
	}
	if e.Reason != guard.LeaseEnded {
		t.Errorf("got %#v, want lease-ended", e)
	}
	wantGone(t, all...)

	err := f.g.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"})
	if !errors.Is(err, guard.ErrNoLease) {
		t.Errorf("without a lease: got %v, want ErrNoLease", err)
	}
	f.g.Lease(time.Now().Add(time.Hour), time.Second)
	if err := f.g.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Errorf("with a new lease: %v", err)
	}
}

func TestALeaseGivenUpStopsTheWorkAtOnce(t *testing.T) {
	f := start(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") + "; exec sleep 1000"})
	pids(t, f.path("pids"), 1)
	f.g.Lease(time.Time{}, 0)
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.LeaseEnded || e.Signal != syscall.SIGTERM {
		t.Errorf("got %#v, want lease-ended by SIGTERM", e)
	}
}

func TestACleanEndLeavesNothing(t *testing.T) {
	f := start(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: lineage(f.path("pids"), "")})
	all := lineagePIDs(t, f.path("pids"))
	guardPID := parent(t, all[0])
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.Stopped {
		t.Errorf("got %#v, want stopped", e)
	}
	for _, pid := range append(all, guardPID) {
		if s := state(pid); s != 0 {
			t.Errorf("process %d is still there, state %c", pid, s)
		}
	}
}

func TestExecWaitsForTheGuardToBeUp(t *testing.T) {
	g := guard.New(guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Exec(ctx, guard.Spec{Name: "w", Command: "true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}

	g.Lease(time.Now().Add(time.Hour), time.Second)
	ended := make(chan error, 1)
	go func() { ended <- g.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}) }()
	ctx, cancel = context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	if err := within(t, "the end", ended); err != nil {
		t.Error(err)
	}
	cancel()
	if err := within(t, "the end of Run", ran); err != nil {
		t.Error(err)
	}
}

func TestNoTwoCommandsOfOneNameAtOnce(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") + "; exec sleep 1000"})
	pids(t, f.path("pids"), 1)
	if err := f.g.Exec(ctx, guard.Spec{Name: "w", Command: "true"}); !errors.Is(err, guard.ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	cancel()
	within(t, "the end", ended)
	if err := f.g.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	const n = 200
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, n)
	for i := range n {
		go func() {
			ended <- f.g.Exec(ctx, guard.Spec{
				Name: strconv.Itoa(i), Command: "echo $$ >> " + f.path("pids") + "; exec sleep 1000", Stdin: make([]byte, 10_000),
			})
		}()
	}
	all := pids(t, f.path("pids"), n)
	begin := time.Now()
	cancel()
	for range n {
		if e := exitError(t, within(t, "an end", ended)); e.Signal != syscall.SIGTERM || e.Reason != guard.Stopped {
			t.Errorf("got %#v, want SIGTERM, stopped", e)
		}
	}
	t.Logf("stopped %d in %v", n, time.Since(begin))
	wantGone(t, all...)
}

// owner is a process of its own that owns a guard.
type owner struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startOwner(t *testing.T, command string) *owner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: exec.Command(exe, command)}
	o.cmd.Env = append(os.Environ(), modeEnv+"=owner")
	o.cmd.Stderr = os.Stderr
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.out = bufio.NewReader(out)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
	})
	return o
}

func TestADeadOwnersWorkIsStoppedInTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, lineage(file, "trap \"\" TERM;"))
	all := lineagePIDs(t, file)
	guardPID := parent(t, all[0])
	begin := time.Now()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all", func() bool {
		return !slices.ContainsFunc(append(all, guardPID), running)
	})
	// The stop timeout is 1 s; the lease has 2 s at most.
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v, longer than the lease", took)
	}
}

func TestAFrozenOwnersWorkEndsBeforeTheLease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, lineage(file, "trap \"\" TERM;"))
	all := lineagePIDs(t, file)
	guardPID := parent(t, all[0])
	if err := o.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	frozen := time.Now()
	eventually(t, "the end of the work", func() bool {
		return !slices.ContainsFunc(all, running)
	})
	if took := time.Since(frozen); took > 2*time.Second {
		t.Errorf("it took %v, longer than the lease", took)
	}
	if !running(guardPID) {
		t.Error("the guard process ended: it must wait for its owner")
	}
	if err := o.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil || !strings.Contains(line, "lease-ended") {
		t.Errorf("the owner, thawed, says %q (%v), want lease-ended", line, err)
	}
}

func TestADeadGuardsWorkEndsWithIt(t *testing.T) {
	f := &fixture{t: t, g: guard.New(guard.Config{}), dir: t.TempDir()}
	f.g.Lease(time.Now().Add(time.Hour), time.Second)
	ran := make(chan error, 1)
	go func() { ran <- f.g.Run(t.Context()) }()
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"), "trap \"\" TERM;")})
	all := pids(t, f.path("pids"), 3)
	guardPID := parent(t, all[0])
	if err := syscall.Kill(guardPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
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
