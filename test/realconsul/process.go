//go:build unix

package realconsul

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

// stopTimeout is how long a server gets to obey SIGTERM; it takes well under a second.
const stopTimeout = 10 * time.Second

// process is one server's program, started as often as the test likes on the same directory and ports.
type process struct {
	binary, configFile, logFile string

	mu     sync.Mutex
	pid    int
	exited chan struct{} // closed when the current program is gone; nil before the first start
	ending bool          // we asked for the end: anything else is a crash
	frozen bool
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return errors.New("realconsul: the server is running already")
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("realconsul: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(p.binary, "agent", "-config-file", p.configFile)
	cmd.Stdout, cmd.Stderr = log, log
	// CONSUL_* is for clients of other servers, GORACE and GOCOVERDIR for the test's own binary.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "CONSUL_") || strings.HasPrefix(kv, "GO")
	})
	// A group of its own: a Ctrl-C in the terminal is for the test, which then ends the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)

	started, exited := make(chan error), make(chan struct{})
	go func() {
		defer close(exited)
		// The kernel's "parent has died" is about the thread that called fork: keep it until the child is gone.
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
		return fmt.Errorf("realconsul: %w", err)
	}
	p.pid, p.exited, p.ending, p.frozen = cmd.Process.Pid, exited, false, false
	return nil
}

func (p *process) runningLocked() bool {
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

// end sends the signal, and SIGKILL when that does not help, and returns when the program is gone.
// Ending one that is gone already is fine.
func (p *process) end(sig syscall.Signal) error {
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
		return fmt.Errorf("realconsul: the server did not stop within %v of %v, so it was killed", stopTimeout, sig)
	case <-time.After(stopTimeout):
		return fmt.Errorf("realconsul: process %d survived SIGKILL", p.pid)
	}
}

func (p *process) freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return errors.New("realconsul: cannot freeze: the server is not running")
	}
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("realconsul: freeze: %w", err)
	}
	p.frozen = true
	for deadline := time.Now().Add(stopTimeout); !stopped(p.pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("realconsul: process %d ignores SIGSTOP", p.pid)
		}
	}
	return nil
}

func (p *process) thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return errors.New("realconsul: cannot thaw: the server is not running")
	}
	if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("realconsul: thaw: %w", err)
	}
	p.frozen = false
	return nil
}

func (p *process) id() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// crashed tells whether the program ended without being asked to.
func (p *process) crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited != nil && !p.ending && !p.runningLocked()
}

// tail returns the last n lines of the log; all its starts write to the same file.
func (p *process) tail(n int) string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
