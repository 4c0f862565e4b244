//go:build unix

package realserver

import "syscall"

// Levers are what a test does to a server. They may be used from any goroutine.
type Levers struct {
	process *Process
	// pull runs an action, and reports a failure to the test.
	pull func(action func() error) error
}

// Levers returns the levers of a process.
func (p *Process) Levers(pull func(func() error) error) Levers { return Levers{p, pull} }

// PID is the process id of the server's last start.
func (l Levers) PID() int { return l.process.PID() }

// Stop ends the server with SIGTERM.
func (l Levers) Stop() error {
	return l.pull(func() error { return l.process.End(syscall.SIGTERM) })
}

// Kill ends the server with SIGKILL.
func (l Levers) Kill() error {
	return l.pull(func() error { return l.process.End(syscall.SIGKILL) })
}

// Start runs a stopped or killed server again, with its data and its ports. It does not wait until
// the server is ready.
func (l Levers) Start() error { return l.pull(l.process.Start) }

// Freeze halts the server with SIGSTOP: its connections stay open, new ones are accepted by the
// kernel, nothing is answered.
func (l Levers) Freeze() error { return l.pull(l.process.Freeze) }

// Thaw lets a frozen server go on.
func (l Levers) Thaw() error { return l.pull(l.process.Thaw) }
