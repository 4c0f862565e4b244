//go:build linux

package guard_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/testkit"
)

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
		err := f.Exec(t.Context(), guard.Spec{Name: tt.command, Command: tt.command})
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: got %v, want nil", tt.command, err)
			}
			continue
		}
		e := exitError(t, err)
		if e.Code != tt.code || e.Signal != tt.signal || e.Reason != guard.Ended ||
			!strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %#v (%v), want code %d, signal %d, %q", tt.command, e, err, tt.code,
				tt.signal, tt.text)
		}
	}
}

func TestSignalsArePassedOnToTheFirstProcessAlone(t *testing.T) {
	f := start(t, guard.Config{})
	log, signals := f.path("log"), make(chan os.Signal, 1)
	done := make(chan error, 1)
	go func() {
		done <- f.Exec(t.Context(), guard.Spec{Name: "w", Signals: signals, Command: `
			(trap 'echo child >>` + log + `' USR2; trap 'exit' TERM; echo ready >>` + log + `
			while :; do sleep 0.01; done) &
			trap 'echo first >>` + log + `; kill $!; wait $!; exit 4' USR2; echo ready >>` + log + `
			wait`})
	}()
	text := func() string { b, _ := os.ReadFile(log); return string(b) }
	testkit.Eventually(t, "two that wait", func() bool {
		return strings.Count(text(), "ready") == 2
	})
	signals <- syscall.SIGUSR2
	if e := exitError(t, <-done); e.Code != 4 || e.Reason != guard.Ended {
		t.Errorf("it ended with %v", e)
	}
	if s := text(); strings.Contains(s, "child") || strings.Count(s, "first") != 1 {
		t.Errorf("the log says %q; want one signal, of the first process", s)
	}
}

func TestPayloadIsTheWholeOfStandardInput(t *testing.T) {
	f := start(t, guard.Config{})
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MB
	for name, payload := range map[string][]byte{"none": nil, "binary": {0, 255, 10}, "big": big} {
		out := f.path(name)
		if err := f.Exec(t.Context(), guard.Spec{Name: name, Command: "cat > " + out,
			Stdin: payload}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%s: %d bytes arrived (%v), want %d", name, len(got), err, len(payload))
		}
	}
	if err := f.Exec(t.Context(), guard.Spec{Name: "unread", Command: "true",
		Stdin: big}); err != nil {
		t.Errorf("a command that does not read its payload: %v", err)
	}
}

func TestEnvironmentIsTheOwnersAndTheSpecsOnTop(t *testing.T) {
	t.Setenv("GUARD_TEST_KEPT", "kept")
	t.Setenv("COORDD_ITEM", "overridden")
	f := start(t, guard.Config{})
	out := f.path("out")
	err := f.Exec(t.Context(), guard.Spec{
		Name:    "env",
		Command: `printf '%s|%s|%s' "$GUARD_TEST_KEPT" "$COORDD_ITEM" "$COORDD_TOKEN" > ` + out,
		Env:     []string{"COORDD_ITEM=a b\xff\n$x", "COORDD_TOKEN=1", "COORDD_TOKEN=42"},
	})
	must(t, err)
	if got, _ := os.ReadFile(out); string(got) != "kept|a b\xff\n$x|42" {
		t.Errorf("got %q", got)
	}
}

func TestEveryVariableIsPassedOnce(t *testing.T) {
	t.Setenv("COORDD_ITEM", "own")
	f := start(t, guard.Config{})
	out := f.path("out")
	err := f.Exec(t.Context(), guard.Spec{
		Name: "env", Command: "tr '\\0' '\\n' < /proc/self/environ > " + out,
		Env: []string{"COORDD_ITEM=1", "COORDD_ITEM=2", "PATH=" + os.Getenv("PATH")},
	})
	must(t, err)
	b, _ := os.ReadFile(out)
	count := map[string]int{}
	for kv := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(kv, "=")
		count[name]++
	}
	if count["COORDD_ITEM"] != 1 || count["PATH"] != 1 {
		t.Errorf("COORDD_ITEM %d times, PATH %d times, want once", count["COORDD_ITEM"],
			count["PATH"])
	}
}

func TestACommandIsTheLeaderOfItsGroup(t *testing.T) {
	f := start(t, guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	pid := pids(t, f.path("pids"), 1)[0]
	if pgid, err := syscall.Getpgid(pid); err != nil || pgid != pid {
		t.Errorf("process %d is in group %d (%v), want its own", pid, pgid, err)
	}
	cancel()
	within(t, "the end", ended)
}

func TestASuspendedCommandCanStillEndWell(t *testing.T) {
	f := start(t, guard.Config{StopTimeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{
		Name: "w",
		Command: `trap 'exit 7' TERM; echo $$ >> ` + f.path("pids") +
			`; while :; do sleep 0.01; done`,
	})
	pid := pids(t, f.path("pids"), 1)[0]
	must(t, syscall.Kill(-pid, syscall.SIGSTOP))
	cancel()
	if e := exitError(t, within(t, "the end", ended)); e.Code != 7 {
		t.Errorf("got %#v, want code 7", e)
	}
}

func TestOutputGoesWhereTheOwnersDoes(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	must(t, err)
	defer out.Close()
	f := start(t, guard.Config{Stdout: out, Stderr: out})
	if err := f.Exec(t.Context(),
		guard.Spec{Name: "w", Command: "echo one; echo two >&2"}); err != nil {
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
		Name: "w",
		Command: `trap 'exit 7' TERM; echo $$ >> ` + f.path("pids") +
			`; while :; do sleep 0.01; done`,
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

func TestNothingOfACommandOutlivesItsStop(t *testing.T) {
	for name, trap := range map[string]string{"obedient": "", "stubborn": "trap \"\" TERM;"} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, cfg guard.Config) {
				cfg.StopTimeout = 200 * time.Millisecond
				f := start(t, cfg)
				ctx, cancel := context.WithCancel(t.Context())
				ended := f.exec(ctx, guard.Spec{Name: "w", Command: family(f.path("pids"), trap)})
				all := pids(t, f.path("pids"), familySize)
				cancel()
				within(t, "the end", ended)
				wantGone(t, all...)
			})
		})
	}
}

func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	bothWays(t, leftBehindEnds)
}

func leftBehindEnds(t *testing.T, cfg guard.Config) {
	cfg.StopTimeout = 200 * time.Millisecond
	f := start(t, cfg)
	// One that ignores SIGTERM in the group, and a daemon.
	err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: `
: > ` + f.path("pids") + `
sh -c 'trap "" TERM; echo $$ >> ` + f.path("pids") + `; while :; do sleep 1; done' &
setsid sh -c 'echo $$ >> ` + f.path("pids") + `; sleep 1000; :' &
while [ $(wc -l < ` + f.path("pids") + `) -lt 2 ]; do sleep 0.01; done; exit 5`})
	if e := exitError(t, err); e.Code != 5 || e.Reason != guard.Ended {
		t.Errorf("got %#v, want code 5, ended", e)
	}
	wantGone(t, pids(t, f.path("pids"), 2)...)
}

// The rest of each lease is for a busy machine.
func TestALeaseThatEndsStopsTheWorkBeforeItsEnd(t *testing.T) {
	t.Run("a stop timeout after its margin began", func(t *testing.T) {
		bothWays(t, func(t *testing.T, cfg guard.Config) {
			cfg.StopTimeout = time.Second
			leaseThatEndsStopsTheWork(t, cfg, 31*time.Second, 30*time.Second)
		})
	})
	t.Run("when a quarter of its margin is left", func(t *testing.T) {
		bothWays(t, func(t *testing.T, cfg guard.Config) {
			cfg.StopTimeout = time.Hour
			leaseThatEndsStopsTheWork(t, cfg, 31*time.Second, 2*time.Minute)
		})
	})
}

func leaseThatEndsStopsTheWork(t *testing.T, cfg guard.Config, left, margin time.Duration) {
	f := start(t, cfg)
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"),
		"trap \"\" TERM;")})
	all := pids(t, f.path("pids"), familySize)
	until := time.Now().Add(left)
	f.g.Lease("s1", until, margin)
	e := exitError(t, within(t, "the end", ended))
	if now := time.Now(); now.After(until) {
		t.Errorf("ended %v after the lease", now.Sub(until))
	} else if now.Before(until.Add(-margin)) {
		t.Errorf("ended %v before the lease, which is before its margin", until.Sub(now))
	}
	if e.Reason != guard.LeaseEnded {
		t.Errorf("got %#v, want lease-ended", e)
	}
	wantGone(t, all...)

	err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"})
	if !errors.Is(err, guard.ErrNoLease) {
		t.Errorf("without a lease: got %v, want ErrNoLease", err)
	}
	f.g.Lease("s1", time.Now().Add(time.Hour), time.Second)
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Errorf("with a new lease: %v", err)
	}
}

func TestALeaseGivenUpStopsTheWorkAtOnce(t *testing.T) {
	f := start(t, guard.Config{})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	pids(t, f.path("pids"), 1)
	f.g.Lease("s1", time.Time{}, 0)
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.LeaseEnded ||
		e.Signal != syscall.SIGTERM {
		t.Errorf("got %#v, want lease-ended by SIGTERM", e)
	}
}

// Who only looks at the exit code would take it for a command that was done.
func TestAnEndWithTheLeaseIsNoEndByItselfWhateverTheExitCode(t *testing.T) {
	f := start(t, guard.Config{})
	ended := f.exec(t.Context(),
		guard.Spec{Name: "w", Command: "trap \"exit 0\" TERM; echo $$ >> " + f.path("pids") +
			"; while :; do sleep 0.01; done"})
	pids(t, f.path("pids"), 1)
	f.g.Lease("s1", time.Time{}, 0)
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.LeaseEnded ||
		e.Code != 0 || e.Signal != 0 {
		t.Errorf("got %#v, want lease-ended with code 0", e)
	}
}

func TestACleanEndLeavesNothing(t *testing.T) {
	bothWays(t, cleanEndLeavesNothing)
}

func cleanEndLeavesNothing(t *testing.T, cfg guard.Config) {
	f := start(t, cfg)
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: family(f.path("pids"), "")})
	all := pids(t, f.path("pids"), familySize)
	guardPID := parent(t, all[0])
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.Stopped {
		t.Errorf("got %#v, want stopped", e)
	}
	wantGone(t, all...) // a zombie that has outlived the guard is init's to reap
	if s := state(guardPID); s != 0 {
		t.Errorf("the guard process is still there, state %c", s)
	}
}

func TestExecWaitsForTheGuardToBeUp(t *testing.T) {
	g := guard.New(guard.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Exec(ctx, guard.Spec{Name: "w", Command: "true"}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}

	g.Lease("s1", time.Now().Add(time.Hour), time.Second)
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
	ended := f.exec(ctx, guard.Spec{Name: "w", Command: "echo $$ >> " + f.path("pids") +
		"; exec sleep 1000"})
	pids(t, f.path("pids"), 1)
	if err := f.Exec(ctx, guard.Spec{Name: "w", Command: "true"}); !errors.Is(err,
		guard.ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	cancel()
	within(t, "the end", ended)
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true"}); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// All of them rely on a lease of seconds, which is renewed meanwhile.
func TestManyStartsAtOnceDelayNoLease(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		const n = 500
		f := start(t, cfg)
		renew := func() { f.g.Lease("s1", time.Now().Add(10*time.Second), time.Second) }
		renew()
		renewals := time.NewTicker(time.Second)
		defer renewals.Stop()
		over := make(chan struct{})
		defer close(over)
		go func() {
			for {
				select {
				case <-renewals.C:
					renew()
				case <-over:
					return
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, n)
		for i := range n {
			go func() {
				ended <- f.Exec(ctx, guard.Spec{
					Name: strconv.Itoa(i), Command: "echo $$ >> " + f.path("pids") +
						"; exec sleep 1000", Stdin: make([]byte, 10_000),
				})
			}()
		}
		all := pids(t, f.path("pids"), n)
		if len(ended) > 0 {
			t.Errorf("%d have ended, one with %v", len(ended), <-ended)
		}
		begin := time.Now()
		cancel()
		for range n {
			if e := exitError(t, within(t, "an end", ended)); e.Signal != syscall.SIGTERM ||
				e.Reason != guard.Stopped {
				t.Errorf("got %#v, want SIGTERM, stopped", e)
			}
		}
		t.Logf("stopped %d in %v", n, time.Since(begin))
		wantGone(t, all...)
	})
}

// The lease of a new session does not prolong what was started under the one before: others may
// have that by now.
func TestANewLeaseDoesNotProlongWhatRanUnderTheOneBefore(t *testing.T) {
	hour := func() time.Time { return time.Now().Add(time.Hour) }
	for _, c := range []struct {
		name string
		next func(*guard.Guard)
	}{
		{"given up and had anew", func(g *guard.Guard) {
			g.Lease("s1", time.Time{}, 0)
			g.Lease("s1", hour(), time.Second)
		}},
		{"of another session", func(g *guard.Guard) { g.Lease("s2", hour(), time.Second) }},
	} {
		t.Run(c.name, func(t *testing.T) { newLeaseDoesNotProlong(t, c.next) })
	}
}

func newLeaseDoesNotProlong(t *testing.T, next func(*guard.Guard)) {
	f := start(t, guard.Config{StopTimeout: time.Hour})
	ended := f.exec(t.Context(), guard.Spec{Name: "w", Command: "trap '' TERM; echo $$ >> " +
		f.path("pids") + "; while :; do sleep 0.01; done"})
	pid := pids(t, f.path("pids"), 1)[0]
	until := time.Now().Add(31 * time.Second)
	f.g.Lease("s1", until, 2*time.Minute) // SIGKILL in a second
	next(f.g)
	e := exitError(t, within(t, "the end", ended))
	if late := time.Since(until); late > 0 {
		t.Errorf("it ran until %v after its lease", late)
	}
	if e.Reason != guard.LeaseEnded {
		t.Errorf("got %#v, want lease-ended", e)
	}
	wantGone(t, pid)
	if err := within(t, "the next",
		f.exec(t.Context(), guard.Spec{Name: "w", Command: "true"})); err != nil {
		t.Errorf("under the new lease: %v", err)
	}
}

func TestACommandStartsUnderTheLeaseOfItsSessionOnly(t *testing.T) {
	f := start(t, guard.Config{})
	if err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true",
		Session: "s1"}); err != nil {
		t.Error(err)
	}
	f.g.Lease("s2", time.Now().Add(time.Hour), time.Second)
	err := f.Exec(t.Context(), guard.Spec{Name: "w", Command: "true", Session: "s1"})
	if e := exitError(t, err); !errors.Is(err, guard.ErrNoLease) || e.Reason != guard.NotStarted {
		t.Errorf("under another's: got %v, want ErrNoLease", err)
	}
}
