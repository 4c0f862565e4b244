//go:build unix

package realserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a server gets to obey SIGTERM; it takes well under a second on a quiet
// machine.
const stopTimeout = time.Minute

// Process is one server's program, started as often as the test likes on the same directory and
// ports. Its methods may be used from any goroutine.
type Process struct {
	// Command is the program with its arguments.
	Command []string
	// LogFile gets standard output and standard error of all its starts.
	LogFile string
	// HideEnv are prefixes of environment variables that the server must not see.
	HideEnv []string

	mu     sync.Mutex
	pid    int
	exited chan struct{} // closed when the current program is gone; nil before the first start
	ending bool          // we asked for the end: anything else is a crash
	frozen bool
}

// Start runs the program; it does not wait for the server in it. It must not be running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return errors.New("realserver: the server is running already")
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("realserver: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(p.HideEnv, func(prefix string) bool {
			return strings.HasPrefix(kv, prefix)
		})
	})
	// A group of its own: a Ctrl-C in the terminal is for the test, which then ends the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)

	started, exited := make(chan error), make(chan struct{})
	go func() {
		defer close(exited)
		// The kernel's "parent has died" is about the thread that called fork: keep it until the
		// child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log; that it ended is what we need
		}
	}()
	if err := <-started; err != nil {
		<-exited
		return fmt.Errorf("realserver: %w", err)
	}
	p.pid, p.exited, p.ending, p.frozen = cmd.Process.Pid, exited, false, false
	return nil
}

func (p *Process) runningLocked() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// End sends the signal, and SIGKILL when that does not help, and returns when the program is gone.
// Ending one that is gone already is fine.
func (p *Process) End(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return nil
	}
	p.ending = true
	if p.frozen && sig != syscall.SIGKILL {
		_ = syscall.Kill(p.pid, syscall.SIGCONT)
		p.frozen = false
	}
	_ = syscall.Kill(p.pid, sig)
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
	select {
	case <-p.exited:
		return fmt.Errorf("realserver: the server did not stop within %v of %v, so it was killed",
			stopTimeout, sig)
	case <-time.After(stopTimeout):
		return fmt.Errorf("realserver: process %d survived SIGKILL", p.pid)
	}
}

// Freeze halts the program with SIGSTOP and returns when it has come to a halt: its connections
// stay open, nothing is answered.
func (p *Process) Freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return errors.New("realserver: cannot freeze: the server is not running")
	}
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("realserver: freeze: %w", err)
	}
	p.frozen = true
	for deadline := time.Now().Add(stopTimeout); !stopped(p.pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("realserver: process %d ignores SIGSTOP", p.pid)
		}
	}
	return nil
}

// Thaw lets a frozen program go on.
func (p *Process) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return errors.New("realserver: cannot thaw: the server is not running")
	}
	if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("realserver: thaw: %w", err)
	}
	p.frozen = false
	return nil
}

// PID is the process id of the last start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Crashed tells whether the program ended without being asked to.
func (p *Process) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited != nil && !p.ending && !p.runningLocked()
}

// Tail returns the last n lines of the log; all its starts write to the same file.
func (p *Process) Tail(n int) string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
