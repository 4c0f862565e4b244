//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// program is one run of the binary. It dies with the test process, however that ends.
type program struct {
	*testkit.Child
	t        *testing.T
	what     string
	out, err string // files
}

var programs atomic.Int64

// launch starts the binary with more environment than a bare one, and ends it with the test.
func launch(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return launchOther(t, binary, env, args...)
}

// launchOther starts another program in the same way.
func launchOther(t *testing.T, path string, env []string, args ...string) *program {
	t.Helper()
	return launchTo(t, nil, path, env, args...)
}

// launchTo writes standard error to stderr, unless that is nil. Nothing of it is shown then.
func launchTo(t *testing.T, stderr *os.File, path string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, what: filepath.Base(path) + " " + strings.Join(brief(args), " ")}
	n := programs.Add(1)
	files := make([]*os.File, 2)
	for i, kind := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(scratch, kind+"-"+itoa(int(n))))
		must(t, err)
		defer f.Close()
		files[i] = f
	}
	p.out, p.err = files[0].Name(), files[1].Name()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.Env = append(testkit.Environ("COORDD_", "CONSUL_", "GO"), env...)
	child, err := testkit.StartChild(cmd)
	must(t, err)
	p.Child = child
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- %s (pid %d, exit code %d)\nstandard output: %s\nstandard error: %s", p.what,
				p.PID, p.Code, tail(p.stdout(), 20), tail(p.stderr(), 50))
		}
	})
	return p
}

// brief leaves the script of --exec out of what is shown.
func brief(args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if strings.Contains(a, "\n") {
			args[i] = "..."
		}
	}
	return args
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if !p.Running() {
		p.t.Fatalf("%s ended by itself with code %d", p.what, p.Code)
	}
	if err := syscall.Kill(p.PID, s); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the end and returns the exit code and how long it took.
func (p *program) ends(limit time.Duration) (int, time.Duration) {
	p.t.Helper()
	begin := time.Now()
	select {
	case <-p.Exited:
		return p.Code, time.Since(begin)
	case <-time.After(limit):
		p.t.Fatalf("%s still runs after %v", p.what, limit)
		return 0, 0
	}
}

func (p *program) stdout() string { return contents(p.out) }
func (p *program) stderr() string { return contents(p.err) }

func contents(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func tail(text string, n int) string { return "\n" + testkit.Tail(text, n) }

// once runs a command to its end.
func once(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := launch(t, nil, args...)
	code, _ = p.ends(workLimit)
	return p.stdout(), p.stderr(), code
}

// workDir is a directory that commands know as E2E_DIR. It is removed when none of them is left:
// one whose coordd was killed goes on writing until its guard has ended it.
func workDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		testkit.Await(t, workLimit, "no command writes into "+dir, func() string {
			if pids := marked(t, "E2E_DIR="+dir); len(pids) > 0 {
				return fmt.Sprint(pids)
			}
			return ""
		})
	})
	return dir
}

func marked(t *testing.T, variables ...string) []int {
	t.Helper()
	pids, err := testkit.Marked(variables...)
	must(t, err)
	return pids
}
