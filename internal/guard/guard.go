//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/output"
)

// DefaultStopTimeout is how long a command has between SIGTERM and SIGKILL when Config says
// nothing.
const DefaultStopTimeout = 10 * time.Second

// Config says how to start the guard process. The zero value is usable in a binary whose command
// `guard` calls Main.
type Config struct {
	// Argv starts the guard process. Default: the running program with the one argument "guard".
	Argv []string
	// Stdout and Stderr are what commands write to, passed on as they are unless Output says
	// otherwise. Default: those of this process.
	Stdout, Stderr *os.File
	// Output has the guard process copy what commands write. Default: commands have Stdout and
	// Stderr themselves.
	Output output.Config
	// Logger takes what happens to the guard process itself. Default: none.
	Logger *slog.Logger
	// StopTimeout is the time between SIGTERM and SIGKILL; the end of the lease shortens it.
	// Default: DefaultStopTimeout.
	StopTimeout time.Duration
	// LockFile is locked, with flock(2), while commands may run: see LockID. Give the same file to
	// all that must not run at the same time. It is never removed. Default: none.
	LockFile string
	// Starts is how many commands are started at one time; what waits delays no lease and no stop.
	// Default: as many as there are processors.
	Starts int
	// NoCgroups leaves cgroups alone. Without it each command gets a cgroup of its own where cgroup
	// v2 lets this process have some.
	NoCgroups bool
	// HideEnv names variables of this process that commands do not get, unless their Spec sets
	// them. The guard process gets them. Default: none.
	HideEnv []string
	// Up is called by Run, with its context, each time that its guard process is ready: it takes
	// commands, and has tried to lock LockFile. It must not block. Default: nothing.
	Up func(context.Context)
}

// Spec is one command to run.
type Spec struct {
	Name    string // for errors and output; no two commands of one name run at once
	Command string // run by /bin/sh -c
	// Env is NAME=value, over the environment of this process without Config.HideEnv. Without
	// cgroups a background process is known by it: let it differ between commands.
	Env     []string
	Stdin   []byte // the whole of standard input; none reads as empty
	Session string // whose Lease it relies on: under another one it does not start. Empty: any
	NoWait  bool   // where no guard process is up it does not start, in place of waiting for one
	// Signals are passed on to the command's first process, while it runs and is not being
	// stopped. May be nil.
	Signals <-chan os.Signal
	// Runs is called by Exec with true when the command has begun. May be nil.
	Runs func(bool)
	// Ended is called by Exec before it returns, when the command was started, with two times by the
	// wall clock of this host, and why it ended. At is when nothing of it was found any more, which
	// is earlier than the call if this process was frozen meanwhile. Ran is when it was killed, or
	// last seen to run: it ended between the two. May be nil.
	Ended func(ran, at time.Time, why Reason)
	// Stood is called by Exec before Ended, if the guard process stood still while the command ran,
	// with the last such time by the wall clock of this host. May be nil.
	Stood func(from, to time.Time)
}

// Guard runs commands through a guard process. Its methods may be called from any goroutine.
type Guard struct {
	cfg Config

	mu      sync.Mutex
	link    *link           // nil while no guard process is up
	up      chan struct{}   // closed when link is set
	names   map[string]bool // in use by an Exec
	lease   *lease          // the newest; each command keeps the one of its epoch
	session string          // whose it is
	goodbye Goodbye
	running bool     // Run is
	lock    *os.File // the lock file; this process holds the lock together with its guard process
	lockID  string   // which file that is, once it is locked
	stuck   error    // what Run returns, if that is of no use any more
	waiting int      // Execs that wait for a guard process
	since   time.Time

	stuckAfter time.Duration
	kill       func(*os.Process) error // ends the guard process at once

	unwritten atomic.Uint64 // lines of output
}

// New returns a Guard that runs nothing until Run is called.
func New(cfg Config) *Guard {
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
	}
	if cfg.Starts == 0 {
		cfg.Starts = runtime.NumCPU()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = asynclog.Wrap(cfg.Logger)
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	return &Guard{cfg: cfg, up: make(chan struct{}), names: map[string]bool{}, lease: &lease{},
		stuckAfter: stuckAfter, kill: (*os.Process).Kill}
}

// OutputLost counts the lines of commands' output that could not be written, as the guard process
// has told. What a guard process had not copied that was killed is not counted.
func (g *Guard) OutputLost() uint64 { return g.unwritten.Load() }

// Lease tells until when work may run, and how long before that it begins to stop. Call it at each
// renewal, before the Exec that relies on it; it never blocks and the newest call wins. The zero
// time says that no lease is held: commands are told to stop at once, and killed by the end that
// the lease had. So are those that began under a lease of another session, or under one given up
// since, whatever this one says. Until the first call nothing starts.
//
// SIGKILL comes a quarter of margin before until. A margin under MinMargin counts as that.
func (g *Guard) Lease(session string, until time.Time, margin time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seq := g.lease.Seq + 1
	if until.IsZero() {
		g.lease.Gone = true
	} else {
		next := makeLease(until, margin)
		next.Epoch = g.lease.Epoch
		if g.lease.Gone || g.session != session || next.Epoch == 0 {
			next.Epoch++
			g.lease, g.session = &lease{}, session
		}
		*g.lease = next
	}
	g.lease.Seq = seq
	if g.link != nil {
		g.link.setLease(*g.lease)
	}
}

// LockID names the very file that is locked, by device, inode and owner. While it is, nothing runs
// that another owner of this file had started. It is empty until the lock is held, and without a
// LockFile. A lock that was not free at the start is taken within about 50 ms of becoming so.
//
// This process and its guard process hold the lock together, so that it outlives the death of
// either. It is released when Run has ended without an error, or when both are gone.
func (g *Guard) LockID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lockID
}

// Exec runs a command and returns when nothing of it is left: neither its process, nor its group or
// cgroup, nor what left the group and was adopted by the guard process. While no guard process is
// up it waits for one.
//
// It returns nil when the command ended with exit code 0, unless it was stopped because of its
// lease, and an *ExitError for every other end. When ctx ends the command gets SIGTERM, and SIGKILL
// after the stop timeout; Exec still waits for the real end. When ctx ends before the command was
// started, it returns the cause of ctx. ErrNoLease, ErrLost and ErrRunning are to be told apart
// with errors.Is.
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
	stop, runs := ctx.Done(), j.runs
	if s.Runs == nil {
		runs = nil
	}
	for {
		select {
		case <-runs:
			runs = nil
			s.Runs(true)
		case <-j.done:
			if j.exit.Reason == NotStarted && ctx.Err() != nil {
				return notStarted(ctx, s)
			}
			return j.over(s)
		case sig := <-s.Signals:
			if number, ok := sig.(syscall.Signal); ok {
				j.link.controls.put(control{Kind: ctlSignal, ID: j.id, Signal: int(number)})
			}
		case <-stop:
			stop = nil
			j.link.controls.put(control{Kind: ctlStop, ID: j.id})
		}
	}
}

func notStarted(ctx context.Context, s Spec) error {
	return fmt.Errorf("guard: command %q: not started: %w", s.Name, context.Cause(ctx))
}

// Kill kills all commands at once, and starts no more. It returns when nothing of them is left, or
// after limit. A guard process that has not done it by then, as a frozen one, is killed itself: then
// it takes up to limit once more. It is for a process that is about to end.
func (g *Guard) Kill(limit time.Duration) {
	g.mu.Lock()
	l := g.link
	g.stuck = fmt.Errorf("guard: %w: all commands were killed", ErrStuck)
	g.mu.Unlock()
	if l == nil {
		return
	}
	l.close()
	l.controls.put(control{Kind: ctlKill})
	if !l.idle(limit) {
		l.destroy()
		l.idle(limit) // Run clears away what it left
	}
}

// AwaitUp returns nil when a guard process is up, and the error of ctx when that has ended before.
func (g *Guard) AwaitUp(ctx context.Context) error {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// submit hands the command to the guard process that is up, now or later.
func (g *Guard) submit(ctx context.Context, s Spec) (*job, error) {
	for {
		if ctx.Err() != nil {
			return nil, notStarted(ctx, s)
		}
		g.mu.Lock()
		l, up := g.link, g.up
		if s.Session != "" && s.Session != g.session || l != nil && !g.lease.held() {
			g.mu.Unlock()
			return nil, &ExitError{Name: s.Name, Code: -1, Reason: NotStarted, Err: ErrNoLease}
		}
		if l != nil {
			if j := l.start(s, g.cfg.StopTimeout, g.lease); j != nil {
				g.mu.Unlock()
				return j, nil
			}
			up = l.unlinked // it is on its way down, and Run is about to say so
		}
		g.mu.Unlock()
		if l == nil && s.NoWait {
			return nil, &ExitError{Name: s.Name, Code: -1, Reason: NotStarted, Err: ErrNotUp}
		}
		g.wait(1)
		select {
		case <-up:
		case <-ctx.Done():
		}
		g.wait(-1)
	}
}

// wait counts the Execs that wait for a guard process, and notes since when one does.
func (g *Guard) wait(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 && g.link == nil {
		g.since = time.Now()
	}
	g.waiting += n
}

// waitedTooLong tells whether a command has waited for stuckAfter for a guard process that works.
// Somebody else may be able to run it.
func (g *Guard) waitedTooLong() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0 && g.link == nil && time.Since(g.since) > g.stuckAfter
}

// over tells when the command ended, and how.
func (j *job) over(s Spec) error {
	if s.Stood != nil && j.exit.StoodFrom != 0 {
		s.Stood(time.Unix(0, j.exit.StoodFrom), time.Unix(0, j.exit.StoodTo))
	}
	if s.Ended != nil && j.exit.Reason != NotStarted {
		ran, at, why := time.Unix(0, j.exit.Ran), time.Now(), j.exit.Reason
		// else the guard process died, and its commands have just been seen to be gone
		if j.exit.Ended != 0 {
			at = time.Unix(0, j.exit.Ended)
		}
		if j.lost != nil {
			why = Lost
		}
		s.Ended(ran, at, why)
	}
	e := j.exit
	switch {
	case j.lost != nil:
		return &ExitError{Name: s.Name, Code: -1, Reason: Lost, Err: j.lost}
	case e.NoLease:
		return &ExitError{Name: s.Name, Code: -1, Reason: e.Reason, Err: ErrNoLease}
	case e.Err != "":
		return &ExitError{Name: s.Name, Code: -1, Reason: e.Reason, Err: errors.New(e.Err)}
	case e.Code == 0 && e.Signal == 0 && e.Reason != LeaseEnded:
		// that it stopped well does not make the lease's end its own
		return nil
	}
	return &ExitError{Name: s.Name, Code: e.Code, Signal: syscall.Signal(e.Signal),
		Reason: e.Reason}
}
