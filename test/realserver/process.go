//go:build unix

package realserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/testkit"
)

// ErrKilled says that the server did not obey the signal, and has been killed.
var ErrKilled = errors.New("realserver: the server had to be killed")

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
	child  *testkit.Child // the current or last start; nil before the first one
	ending bool           // we asked for the end: anything else is a crash
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
	cmd.Env = testkit.Environ(p.HideEnv...)
	child, err := testkit.StartChild(cmd)
	if err != nil {
		return fmt.Errorf("realserver: %w", err)
	}
	p.child, p.ending, p.frozen = child, false, false
	return nil
}

func (p *Process) runningLocked() bool { return p.child != nil && p.child.Running() }

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
		_ = syscall.Kill(p.child.PID, syscall.SIGCONT)
		p.frozen = false
	}
	_ = syscall.Kill(p.child.PID, sig)
	select {
	case <-p.child.Exited:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = syscall.Kill(p.child.PID, syscall.SIGKILL)
	select {
	case <-p.child.Exited:
		return fmt.Errorf("%w: it did not stop within %v of %v", ErrKilled, stopTimeout, sig)
	case <-time.After(stopTimeout):
		return fmt.Errorf("realserver: process %d survived SIGKILL", p.child.PID)
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
	if err := syscall.Kill(p.child.PID, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("realserver: freeze: %w", err)
	}
	p.frozen = true
	if _, why := testkit.Look(stopTimeout, func() string {
		if stopped(p.child.PID) {
			return ""
		}
		return "ignores SIGSTOP"
	}); why != "" {
		return fmt.Errorf("realserver: process %d %s", p.child.PID, why)
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
	if err := syscall.Kill(p.child.PID, syscall.SIGCONT); err != nil {
		return fmt.Errorf("realserver: thaw: %w", err)
	}
	p.frozen = false
	return nil
}

// PID is the process id of the last start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.PID
}

// Crashed tells whether the program ended without being asked to.
func (p *Process) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child != nil && !p.ending && !p.runningLocked()
}

// Tail returns the last n lines of the log; all its starts write to the same file.
func (p *Process) Tail(n int) string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	return testkit.Tail(string(text), n)
}
