//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// DefaultStopTimeout is how long a command has between SIGTERM and SIGKILL when Config says nothing.
const DefaultStopTimeout = 10 * time.Second

// Config says how to start the guard process. The zero value is usable in a binary whose command `guard` calls Main.
type Config struct {
	// Argv starts the guard process. Default: the running program with the one argument "guard".
	Argv []string
	// Stdout and Stderr are what commands write to, passed on as they are and never copied.
	// Default: those of this process.
	Stdout, Stderr *os.File
	// Logger takes what happens to the guard process itself. Default: none.
	Logger *slog.Logger
	// StopTimeout is the time between SIGTERM and SIGKILL; the end of the lease shortens it.
	// Default: DefaultStopTimeout.
	StopTimeout time.Duration
	// LockFile is locked by the guard process, with flock(2), from its start until it and its commands are gone. Give the
	// same file to all that must not run at the same time, and see Locked. The file holds a line for the
	// next guard process, and is removed when this one ends well. CheckLockFile tells whether it can be used.
	// Default: none.
	LockFile string
	// Up is called by Run, with its context, each time that its guard process is ready: it takes commands, and
	// has tried to lock its LockFile. It must not block. Default: nothing.
	Up func(context.Context)
}

// Validate reports a setting that cannot be.
func (c Config) Validate() error {
	if c.StopTimeout < 0 {
		return fmt.Errorf("guard: stop timeout %v is negative; use 0 for the default of %v", c.StopTimeout, DefaultStopTimeout)
	}
	if c.Argv != nil && len(c.Argv) == 0 {
		return errors.New("guard: Argv is empty; leave it nil for the running program")
	}
	return nil
}

// Spec is one command to run.
type Spec struct {
	Name    string   // for errors; no two commands of one name run at once
	Command string   // run by /bin/sh -c
	Env     []string // NAME=value, over the environment of this process
	Stdin   []byte   // the whole of standard input; none reads as empty
	// Signals are passed on to the command's first process, the shell unless it was told to exec another, while it runs and is
	// not being stopped: not to its group, for few of its children expect them. May be nil.
	Signals <-chan os.Signal
	// Ended is called by Exec before it returns, when the command was started, with the time by the wall clock of this host at which
	// nothing of it was left any more. That is earlier than the call if this process was frozen meanwhile. May be nil.
	Ended func(time.Time)
}

// Guard runs commands through a guard process. Its methods may be called from any goroutine.
type Guard struct {
	cfg Config

	mu       sync.Mutex
	link     *link           // nil while no guard process is up
	up       chan struct{}   // closed when link is set
	names    map[string]bool // in use by an Exec
	lease    lease
	farewell Farewell
	running  bool // Run is
}

// New returns a Guard that runs nothing until Run is called.
func New(cfg Config) *Guard {
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	return &Guard{cfg: cfg, up: make(chan struct{}), names: map[string]bool{}}
}

// Lease tells until when work may run, and how long before that it begins to stop. Call it at each
// renewal, before the Exec that relies on it; it never blocks and the newest call wins. The zero
// time says that no lease is held: commands are told to stop at once, and killed by the end that the lease
// had. Until the first call nothing starts.
//
// SIGKILL comes a quarter of margin before until, half a second at most. A margin under 200 ms counts as 200 ms.
func (g *Guard) Lease(until time.Time, margin time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.IsZero() {
		g.lease.Gone = true
	} else {
		g.lease = makeLease(until, margin)
	}
	if g.link != nil {
		g.link.setLease(g.lease)
	}
}

// Locked reports whether the guard process that is up now holds its LockFile: whatever another guard process with that file had
// started is gone then, and no other one will get the lock before this one ends. It is false while no guard process is up, and without a LockFile.
// A lock that was not free at the start is taken within about 50 ms of becoming so.
func (g *Guard) Locked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link != nil && g.link.holdsLock()
}

// Exec runs a command and returns when nothing of it is left: neither its process, nor its group, nor what left the group
// but could be traced to it. While no guard process is up it waits for one.
//
// It returns nil when the command ended with exit code 0, unless it was stopped because of its lease, and an *ExitError for every other end. When ctx ends
// the command gets SIGTERM, and SIGKILL after the stop timeout; Exec still waits for the real end. When ctx
// ends before the command was started, it returns the cause of ctx. ErrNoLease, ErrLost and ErrRunning are to be
// told apart with errors.Is.
func (g *Guard) Exec(ctx context.Context, s Spec) error {
	g.mu.Lock()
	if g.names[s.Name] {
		g.mu.Unlock()
		return fmt.Errorf("guard: command %q: %w; wait for its end", s.Name, ErrRunning)
	}
	g.names[s.Name] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.names, s.Name)
		g.mu.Unlock()
	}()

	j, err := g.submit(ctx, s)
	if err != nil {
		return err
	}
	for {
		select {
		case <-j.done:
			return j.over(s)
		case sig := <-s.Signals:
			if number, ok := sig.(syscall.Signal); ok {
				j.link.signal(j, number)
			}
		case <-ctx.Done():
			j.link.stop(j)
			<-j.done
			return j.over(s)
		}
	}
}

// submit hands the command to the guard process that is up, now or later.
func (g *Guard) submit(ctx context.Context, s Spec) (*job, error) {
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("guard: command %q: not started: %w", s.Name, context.Cause(ctx))
		}
		g.mu.Lock()
		l, up := g.link, g.up
		g.mu.Unlock()
		if l != nil {
			j := l.start(command{
				Kind:        cmdStart,
				Argv:        []string{"/bin/sh", "-c", s.Command},
				Env:         s.Env,
				Stdin:       s.Stdin,
				StopTimeout: g.cfg.StopTimeout,
			})
			if j != nil {
				return j, nil
			}
			// It is on its way down and Run is about to say so: a moment's wait, not a loop.
			up = l.unlinked
		}
		select {
		case <-up:
		case <-ctx.Done():
		}
	}
}

// job is one command as its owner sees it.
type job struct {
	link *link
	id   uint64
	pid  int // 0 until it has started; guarded by link.mu
	done chan struct{}
	exit event // valid when done is closed
	lost error // the cause, when the guard process died; valid when done is closed
}

// over tells when the command ended, and how.
func (j *job) over(s Spec) error {
	if s.Ended != nil && j.exit.Reason != NotStarted {
		at := time.Now()
		if j.exit.Ended != 0 { // else the guard process died, and its commands have just been seen to be gone
			at = time.Unix(0, j.exit.Ended)
		}
		s.Ended(at)
	}
	return j.result(s.Name)
}

func (j *job) result(name string) error {
	e := j.exit
	switch {
	case j.lost != nil:
		return &ExitError{Name: name, Code: -1, Reason: Lost, Err: j.lost}
	case e.NoLease:
		return &ExitError{Name: name, Code: -1, Reason: e.Reason, Err: ErrNoLease}
	case e.Err != "":
		return &ExitError{Name: name, Code: -1, Reason: e.Reason, Err: errors.New(e.Err)}
	case e.Code == 0 && e.Signal == 0 && e.Reason != LeaseEnded: // that it stopped well does not make the lease's end its own
		return nil
	}
	return &ExitError{Name: name, Code: e.Code, Signal: syscall.Signal(e.Signal), Reason: e.Reason}
}
