//go:build linux

package guard_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/output"
	"github.com/coordd/coordd/internal/testkit"
)

// copying is a guard that writes prefixed lines to a file.
func copying(t *testing.T, cfg output.Config) (f *fixture, out *os.File) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	t.Cleanup(func() { out.Close() })
	cfg.To = output.Prefix
	return start(t, guard.Config{Stdout: out, Stderr: out, Output: cfg}), out
}

func text(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return string(b)
}

// stuck is a pipe that takes no more until it is read.
func stuck(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	_ = w.SetWriteDeadline(time.Now().Add(time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	_ = w.SetWriteDeadline(time.Time{})
	return r, w
}

func TestOutputSaysWhoseItIs(t *testing.T) {
	f, out := copying(t, output.Config{})
	for _, c := range []string{"echo one; echo two >&2", "printf 'no end'",
		"echo three; kill -9 $$", `printf 'a\0b\377\n'`} {
		_ = f.Exec(t.Context(), guard.Spec{Name: "w1", Command: c})
	}
	must(t, f.stop())
	got := text(t, out)
	for _, want := range []string{"w1 out | one\n", "w1 err | two\n", "w1 out | no end\n",
		"w1 out | three\n", "w1 out | a\x00b\xff\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestACommandGetsNothingMoreThanItsTwoPipes(t *testing.T) {
	sees := func(cfg output.Config) (files, pipes int) {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		must(t, err)
		defer out.Close()
		f := start(t, guard.Config{Stdout: out, Stderr: out, Output: cfg})
		if err := f.Exec(t.Context(), guard.Spec{Name: "w1",
			Command: "env; ls -l /proc/self/fd"}); err != nil {
			t.Fatal(err)
		}
		must(t, f.stop())
		if strings.Contains(text(t, out), "COORDD_GUARD_OUTPUT") {
			t.Error("the guard process's own setting is in the environment")
		}
		return strings.Count(text(t, out), " -> "), strings.Count(text(t, out), " -> pipe:")
	}
	// Some may come from what started this test.
	files, pipes := sees(output.Config{})
	if f, p := sees(output.Config{To: output.Prefix}); f != files || p != pipes+2 {
		t.Errorf("%d open files, %d of them pipes; want %d and %d", f, p, files, pipes+2)
	}
}

func TestWhatManyCommandsWroteLastIsNotLost(t *testing.T) {
	f, out := copying(t, output.Config{})
	const commands, lines = 20, 500
	ended := make(chan error, commands)
	for i := range commands {
		go func() {
			ended <- f.Exec(t.Context(), guard.Spec{Name: fmt.Sprint("w", i),
				Command: fmt.Sprintf("seq %d", lines)})
		}()
	}
	for range commands {
		must(t, within(t, "the end", ended))
	}
	must(t, f.stop())
	if n := strings.Count(text(t, out), "\n"); n != commands*lines {
		t.Errorf("%d lines of %d arrived", n, commands*lines)
	}
}

func TestABlockedOutputHoldsUpNoEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, cfg guard.Config) {
		_, w := stuck(t)
		cfg.Stdout, cfg.Stderr = w, w
		cfg.Output, cfg.StopTimeout = output.Config{To: output.Prefix}, time.Second
		var log testkit.Output
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		f := start(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		file := f.path("pids")
		stubborn := f.exec(ctx, guard.Spec{Name: "w1",
			Command: "trap '' TERM; echo $$ >> " + file + "; while :; do echo a line; done"})
		flood := f.exec(ctx, guard.Spec{Name: "w2", Command: "echo $$ >> " + file + "; exec yes"})
		all := pids(t, file, 2)
		// One that says little ends by itself.
		if err := f.Exec(t.Context(), guard.Spec{Name: "w3", Command: "echo one"}); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		cancel()
		within(t, "the end of the one", stubborn)
		within(t, "the end of the other", flood)
		wantGone(t, all...)
		t.Logf("both have ended %v after the order, with a stop timeout of 1 s", time.Since(begun))
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, "a word of what was lost", func() bool {
			return strings.Contains(log.String(), "msg=output-lost")
		})
		if strings.Contains(log.String(), "guard-will-not-end") {
			t.Error("the guard process had to be killed at its end")
		}
	})
}

func TestABlockedOutputDoesNotOutliveTheLease(t *testing.T) {
	_, w := stuck(t)
	f := start(t, guard.Config{Stdout: w, Stderr: w, Output: output.Config{To: output.Prefix},
		StopTimeout: time.Hour})
	ended := f.exec(t.Context(), guard.Spec{Name: "w1", Command: "trap '' TERM; echo $$ >> " +
		f.path("pids") + "; while :; do echo a line; done"})
	pid := pids(t, f.path("pids"), 1)[0]
	f.g.Lease("s1", time.Now().Add(31*time.Second), 2*time.Minute) // SIGKILL in a second
	if e := exitError(t, within(t, "the end", ended)); e.Reason != guard.LeaseEnded {
		t.Errorf("got %v", e)
	}
	wantGone(t, pid)
}

// What holds the pipe open is this test: no guard can trace it.
func TestAForeignHolderOfThePipeKeepsNoItem(t *testing.T) {
	f, out := copying(t, output.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := f.exec(ctx, guard.Spec{Name: "w1",
		Command: "echo $$ >> " + f.path("pids") + "; echo one; exec sleep 1000"})
	pid := pids(t, f.path("pids"), 1)[0]
	held, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pid), os.O_WRONLY, 0)
	must(t, err)
	defer held.Close()
	if _, err := held.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	within(t, "the end", ended)
	testkit.Eventually(t, "a pipe that nobody reads", func() bool {
		_, err := held.WriteString("\n")
		return err != nil
	})
	must(t, f.stop())
	if got := text(t, out); !strings.HasPrefix(got, "w1 out | one\nw1 out | two\n") {
		t.Errorf("got %q", got)
	}
}

func TestTheOwnerHearsOfLostOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	var log testkit.Output
	f := start(t, guard.Config{Stdout: full, Stderr: full,
		Output: output.Config{To: output.Prefix},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := f.Exec(t.Context(), guard.Spec{Name: "w1",
		Command: "echo one; echo two; exit 0"}); err != nil {
		t.Errorf("the command failed: %v", err)
	}
	testkit.Eventually(t, "a word in the log", func() bool {
		return strings.Contains(log.String(), "msg=output-lost") &&
			strings.Contains(log.String(), "item=w1") &&
			strings.Contains(log.String(), "no space left")
	})
	if err := f.stop(); err != nil { // what is left is told at the end
		t.Error(err)
	}
	if n := f.g.OutputLost(); n != 2 {
		t.Errorf("%d lines not written, want 2", n)
	}
}

func TestAnEndOfReadersDoesNotEndCommands(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	r.Close()
	f := start(t, guard.Config{Stdout: w, Stderr: w, Output: output.Config{To: output.Prefix}})
	if err := f.Exec(t.Context(), guard.Spec{Name: "w1",
		Command: "seq 100000 && seq 100000 >&2"}); err != nil {
		t.Errorf("got %v", err)
	}
}

// The guard process copies on when its owner is dead.
func TestACommandOfADeadOwnerIsHeardToItsEnd(t *testing.T) {
	t.Setenv(outputEnv, "1")
	file := filepath.Join(t.TempDir(), "pids")
	o := startOwner(t, "trap 'echo stopping; sleep 0.2; printf stopped; exit' TERM; echo $$ >> "+
		file+"; while :; do sleep 0.01; done")
	pids(t, file, 1)
	must(t, o.cmd.Process.Kill())
	got, err := io.ReadAll(o.out)
	if want := "w out | stopping\nw out | stopped\n"; err != nil || string(got) != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestABlockedOutputKeepsNoSuccessorWaiting(t *testing.T) {
	t.Setenv(outputEnv, "1")
	dir := t.TempDir()
	lock, file := filepath.Join(dir, "lock"), filepath.Join(dir, "pids")
	t.Setenv(lockEnv, lock)
	r, w := stuck(t)
	defer r.Close()
	exe, err := os.Executable()
	must(t, err)
	o := exec.Command(exe, "echo $$ >> "+file+"; exec yes")
	o.Env, o.Stdout = append(os.Environ(), modeEnv+"=owner"), w
	must(t, o.Start())
	its := pids(t, file, 1)[0]
	guardPID := parent(t, its)
	_ = o.Process.Kill()
	_ = o.Wait()
	testkit.Eventually(t, "the end of the command", func() bool { return !running(its) })
	f, _ := locking(t, lock)
	f.locked()
	testkit.Eventually(t, "the end of the guard process", func() bool { return !running(guardPID) })
}
