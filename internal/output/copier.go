//go:build unix

package output

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// lingers is how long the rest of what an ended command wrote waits for somebody to take it.
const lingers = 10 * time.Second

// Copier copies the output of commands. Its methods may be called from any goroutine.
type Copier struct {
	sinks   [3]sink // by stream: 1 is standard output, 2 is standard error
	losses  losses
	over    chan struct{} // closed when nothing more is waited for
	streams sync.WaitGroup
}

// New returns a Copier that writes to the descriptors of a standard output and error. lost is told
// of what was not written: at once, and then at most every 30 s; it must not wait. The Config is
// one that Validate takes, and not Raw.
func New(cfg Config, stdout, stderr int, lost func(Loss)) (*Copier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Copier{losses: losses{report: lost}, over: make(chan struct{})}
	switch cfg.To {
	case Prefix:
		out, err := newPrefixed(stdout, stderr)
		c.sinks = [3]sink{1: out, 2: err}
	case File:
		root, err := os.OpenRoot(cfg.Dir)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		f := &files{turns: make(turns, fileTurns), root: root}
		c.sinks = [3]sink{1: f, 2: f}
	default:
		return nil, errors.New("output: raw output needs no copying")
	}
	return c, nil
}

// Run is the output of one command.
type Run struct {
	mine  [3]*os.File   // the ends of the command's pipes, until Started; by stream
	from  [3]*os.File   // the other ends
	ended chan struct{} // closed when the rest of it is not waited for any more
}

// Begin makes the pipes of a command. Call Started when it has started, and Ended in any case.
func (c *Copier) Begin(item string) (*Run, error) {
	r := &Run{ended: make(chan struct{})}
	for n := 1; n <= 2; n++ {
		var err error
		if r.from[n], r.mine[n], err = os.Pipe(); err == nil {
			// A command expects a pipe that makes it wait.
			err = syscall.SetNonblock(int(r.mine[n].Fd()), false)
		}
		if err != nil {
			r.Started()
			closeAll(&r.from)
			return nil, fmt.Errorf("pipe for the output: %w", err)
		}
	}
	for n := 1; n <= 2; n++ {
		s := &stream{item: item, number: n, from: r.from[n], sink: c.sinks[n], copier: c,
			ended: r.ended}
		c.streams.Go(s.copy)
	}
	return r, nil
}

// Files are the command's ends.
func (r *Run) Files() (stdout, stderr *os.File) { return r.mine[1], r.mine[2] }

// Started closes the command's ends here, when the command has its own.
func (r *Run) Started() { closeAll(&r.mine) }

// Ended says that the command has ended: what is in its pipes now is all that it wrote. It does not
// wait for that to be copied.
func (r *Run) Ended() {
	r.Started()
	for _, f := range r.from[1:] {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // it may be closed already
	}
	time.AfterFunc(lingers, func() { close(r.ended) })
}

func closeAll(files *[3]*os.File) {
	for i, f := range files {
		if f != nil {
			_ = f.Close()
		}
		files[i] = nil
	}
}

// Close waits for what the commands wrote to be copied, up to limit, and drops the rest. Call it
// when all of them have ended. A write that is blocked in the kernel ends with the process.
func (c *Copier) Close(limit time.Duration) {
	done := make(chan struct{})
	go func() { c.streams.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		close(c.over)
		select {
		case <-done:
		case <-time.After(countLimit):
		}
	}
	c.losses.close()
}

// countLimit is what it takes to count what is dropped, of a hundred full pipes on a busy machine.
const countLimit = 500 * time.Millisecond
