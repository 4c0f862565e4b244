//go:build unix

package testkit

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process that does not outlive the test process, however that ends: the kernel kills it
// (Linux only). It has a process group of its own, so a Ctrl-C in the terminal is for the test.
type Child struct {
	PID    int
	Exited chan struct{} // closed when the process is gone
	Code   int           // valid once Exited is closed; -1: by a signal
}

// StartChild starts the command as a child.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	c, started := &Child{Exited: make(chan struct{})}, make(chan error)
	go func() {
		defer close(c.Exited)
		// The kernel's "parent has died" is about the thread that called fork: keep it until the
		// child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			c.Code = cmd.ProcessState.ExitCode()
		}
	}()
	if err := <-started; err != nil {
		<-c.Exited
		return nil, err
	}
	c.PID = cmd.Process.Pid
	return c, nil
}

// Running tells whether the process is there, a zombie excepted.
func (c *Child) Running() bool {
	select {
	case <-c.Exited:
		return false
	default:
		return true
	}
}

// Kill is kill -9. It returns when the process is gone.
func (c *Child) Kill() {
	if c.Running() {
		_ = syscall.Kill(c.PID, syscall.SIGKILL)
		<-c.Exited
	}
}
