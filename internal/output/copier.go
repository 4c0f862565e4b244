//go:build unix

package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxLingering is how many commands may have ended with nobody to take what they wrote last. Each
// keeps two pipes.
const maxLingering = 100

// Copier copies the output of commands. Its methods may be called from any goroutine.
type Copier struct {
	sinks  [3]sink // by stream
	rates  *rates
	losses losses
	above  losses          // the rate
	ctx    context.Context // done when nothing more is waited for
	cancel context.CancelFunc

	mu        sync.Mutex
	lingering []*Run // that have ended and are still being copied, the oldest first
	streams   sync.WaitGroup
}

// New returns a Copier that writes to the descriptors of a standard output and error. lost is told
// of what was not written: at once, and then at most every 30 s; it must not wait. The Config
// is one that Validate takes, and not Raw.
func New(cfg Config, stdout, stderr int, lost func(Loss)) (*Copier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Copier{rates: newRates(cfg.Rate), losses: losses{report: lost},
		above: losses{report: lost}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	switch cfg.To {
	case Prefix:
		out, err := newPrefixed(stdout, stderr, cfg.Terminal)
		c.sinks = [3]sink{1: out, 2: err}
	case File:
		f := &files{turns: newTurns(fileTurns), dir: cfg.Dir}
		c.sinks = [3]sink{1: f, 2: f}
	case Journal:
		j := &journal{turns: newTurns(1), socket: cmp.Or(cfg.Socket, JournalSocket)}
		c.sinks = [3]sink{1: j, 2: j}
	default:
		return nil, errors.New("output: raw output needs no copying")
	}
	return c, nil
}

// Run is the output of one command.
type Run struct {
	copier    *Copier
	mine      [3]*os.File // the ends of the command's pipes, until Started; by stream
	from      [3]*os.File // the other ends
	ended     chan struct{}
	cancelled <-chan struct{} // nothing more is waited for
	cancel    context.CancelFunc
}

// Begin makes the pipes of a command. env are its own variables. Call Started when it has started,
// and Ended in any case.
func (c *Copier) Begin(item string, env []string) (_ *Run, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	r := &Run{copier: c, ended: make(chan struct{}), cancelled: ctx.Done(),
		cancel: cancel}
	defer func() {
		if err != nil {
			r.Started()
			closeAll(&r.from)
			cancel()
			err = fmt.Errorf("pipe for the output: %w", err)
			if errors.Is(err, syscall.EMFILE) {
				err = fmt.Errorf("%w: each command takes two: raise the limit of open files", err)
			}
		}
	}()
	var streams []*stream
	for n := 1; n <= 2; n++ {
		if r.from[n], r.mine[n], err = os.Pipe(); err != nil {
			return nil, err
		}
		// A command expects a pipe that makes it wait.
		if err = syscall.SetNonblock(int(r.mine[n].Fd()), false); err != nil {
			return nil, err
		}
		s, err := newStream(r, r.from[n], c.sinks[n], source{item: item, stream: n, env: env})
		if err != nil {
			return nil, err
		}
		streams = append(streams, s)
	}
	limiter := c.rates.use(item)
	var both sync.WaitGroup
	for _, s := range streams {
		s.rate = limiter
		both.Go(s.copy)
	}
	c.streams.Go(func() {
		both.Wait()
		cancel()
		c.rates.release(item, time.Now())
		c.forget(r)
	})
	return r, nil
}

// Fds are the descriptors for the command.
func (r *Run) Fds() (stdout, stderr uintptr) { return r.mine[1].Fd(), r.mine[2].Fd() }

// Started closes the command's ends here, when the command has its own.
func (r *Run) Started() { closeAll(&r.mine) }

// Ended says that the command has ended: what is in its pipes now is all that it wrote. It does not
// wait for that to be copied.
func (r *Run) Ended() {
	r.Started()
	r.copier.linger(r)
	close(r.ended) // before the deadlines: a stream sets its own, and looks then
	for _, f := range r.from[1:] {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // it may be closed already
	}
}

func closeAll(files *[3]*os.File) {
	for i, f := range files {
		if f != nil {
			_ = f.Close()
		}
		files[i] = nil
	}
}

// linger notes that a command has ended whose output may not be copied yet.
func (c *Copier) linger(r *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-r.cancelled: // it is, or nobody waits for it any more
		return
	default:
	}
	c.lingering = append(c.lingering, r)
	if len(c.lingering) > maxLingering {
		c.lingering[0].cancel()
		c.lingering = c.lingering[1:]
	}
}

func (c *Copier) forget(r *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.lingering {
		if other == r {
			c.lingering = append(c.lingering[:i], c.lingering[i+1:]...)
			return
		}
	}
}

// Close waits for what the commands wrote to be copied, up to limit, and drops the rest. Call it
// when all of them have ended.
func (c *Copier) Close(limit time.Duration) {
	done := make(chan struct{})
	go func() { c.streams.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		c.cancel()
		// What waits for its turn counts what it drops now. What is in a write stays there.
		select {
		case <-done:
		case <-time.After(countLimit):
		}
	}
	c.cancel()
	c.losses.close()
	c.above.close()
}

// countLimit is what it takes to count what is dropped, of a hundred full pipes.
const countLimit = 100 * time.Millisecond
