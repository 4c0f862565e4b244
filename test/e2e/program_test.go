//go:build linux

package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// program is one run of the binary. It dies with the test process, however that ends.
type program struct {
	t        *testing.T
	what     string
	pid      int
	out, err string // files
	exited   chan struct{}
	code     int // valid once exited is closed; -1: by a signal
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
	p := &program{t: t, what: filepath.Base(path) + " " + strings.Join(brief(args), " "),
		exited: make(chan struct{})}
	n := programs.Add(1)
	files := make([]*os.File, 2)
	for i, kind := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(scratch, kind+"-"+itoa(int(n))))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	p.out, p.err = files[0].Name(), files[1].Name()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if stderr != nil {
		cmd.Stderr = stderr
	}
	// What is set for the test, or for its machine, is not for the program under test.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "COORDD_") || strings.HasPrefix(kv, "CONSUL_") ||
			strings.HasPrefix(kv, "GO")
	}), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		// "The parent has died" is about the thread that called fork: keep it until the child is
		// gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			p.code = cmd.ProcessState.ExitCode()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("--- %s (pid %d, exit code %d)\nstandard output: %s\nstandard error: %s", p.what,
				p.pid, p.code, tail(p.stdout(), 20), tail(p.stderr(), 50))
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

func (p *program) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if !p.running() {
		p.t.Fatalf("%s ended by itself with code %d", p.what, p.code)
	}
	if err := syscall.Kill(p.pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// kill is kill -9. It returns when the process is gone.
func (p *program) kill() {
	if p.running() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		<-p.exited
	}
}

// ends waits for the end and returns the exit code and how long it took.
func (p *program) ends(limit time.Duration) (int, time.Duration) {
	p.t.Helper()
	begin := time.Now()
	select {
	case <-p.exited:
		return p.code, time.Since(begin)
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

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{"..."}, lines[len(lines)-n:]...)
	}
	return "\n" + strings.Join(lines, "\n")
}

// once runs a command to its end.
func once(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := launch(t, nil, args...)
	code, _ = p.ends(workLimit)
	return p.stdout(), p.stderr(), code
}

// marked lists the processes that have kv in their environment: those that the binary started with
// it, the guard and the work, and those that they started.
func marked(t *testing.T, kvs ...string) []int {
	t.Helper()
	dir, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range dir {
		pid := atoi(e.Name())
		if pid <= 0 {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || len(env) == 0 { // gone, or a zombie
			continue
		}
		env = append([]byte{0}, env...)
		if !slices.ContainsFunc(kvs, func(kv string) bool {
			return !bytes.Contains(env, []byte("\x00"+kv+"\x00"))
		}) {
			pids = append(pids, pid)
		}
	}
	return pids
}
