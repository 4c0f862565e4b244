//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	// Output has the guard process copy what commands write. Default: it does not, and they have
	// Stdout and Stderr themselves.
	Output output.Config
	// Logger takes what happens to the guard process itself. Default: none.
	Logger *slog.Logger
	// StopTimeout is the time between SIGTERM and SIGKILL; the end of the lease shortens it.
	// Default: DefaultStopTimeout.
	StopTimeout time.Duration
	// LockFile is locked by the guard process, with flock(2), from its start until it and its
	// commands are gone. Give the same file to all that must not run at the same time, and see
	// LockID. The file holds a line for the next guard process, and is removed when this one ends
	// well. It stays when the owner died and the goodbye has not made an end of everything: a
	// successor is to see that it is the same file. CheckLockFile tells whether it can be used.
	// Default: none.
	LockFile string
	// OwnLock says that LockFile is for this process alone: nobody will look for it, and it never
	// stays.
	OwnLock bool
	// NoCgroups leaves cgroups alone. Without it each command gets a cgroup of its own where cgroup
	// v2 lets this process have some: in a unit of systemd with Delegate=, in a container that may
	// write to them.
	NoCgroups bool
	// Adopt says that this process starts no others but its guard process, and makes it the parent
	// of all that a killed guard process leaves: that is killed then, whatever it has done to its
	// environment. It does nothing while this process has children already, as one has that a shell
	// with jobs became.
	Adopt bool
	// HideEnv names variables of this process that commands do not get, unless their Spec sets
	// them. The guard process gets them. Default: none.
	HideEnv []string
	// Up is called by Run, with its context, each time that its guard process is ready: it takes
	// commands, and has tried to lock its LockFile. It must not block. Default: nothing.
	Up func(context.Context)
}

// Validate reports a setting that cannot be.
func (c Config) Validate() error {
	if c.StopTimeout < 0 {
		return fmt.Errorf("guard: stop timeout %v is negative; use 0 for the default of %v",
			c.StopTimeout, DefaultStopTimeout)
	}
	if c.Argv != nil && len(c.Argv) == 0 {
		return errors.New("guard: Argv is empty; leave it nil for the running program")
	}
	if err := c.Output.Validate(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// Spec is one command to run.
type Spec struct {
	Name    string   // for errors and output; no two commands of one name run at once
	Command string   // run by /bin/sh -c, whose process a simple command takes over
	Env     []string // NAME=value, over the environment of this process without Config.HideEnv
	Stdin   []byte   // the whole of standard input; none reads as empty
	Session string   // whose Lease it relies on: under another one it does not start. Empty: any
	NoWait  bool     // where no guard process is up it does not start, in place of waiting for one
	// Signals are passed on to the command's first process, the shell unless it was told to exec
	// another, while it runs and is not being stopped: not to its group, for few of its children
	// expect them. May be nil.
	Signals <-chan os.Signal
	// Ended is called by Exec before it returns, when the command was started, with the time by the
	// wall clock of this host at which nothing of it was left any more, and why it ended. That is
	// earlier than the call if this process was frozen meanwhile. May be nil.
	Ended func(at time.Time, why Reason)
	// Stood is called by Exec before Ended, if the guard process stood still while the command ran,
	// with the last such time by the wall clock of this host. So it is if this process stood still,
	// and killed the guard process when it woke up because the lease was over and the command was
	// not: with that time. May be nil.
	Stood func(from, to time.Time)
}

// Guard runs commands through a guard process. Its methods may be called from any goroutine.
type Guard struct {
	cfg Config

	mu      sync.Mutex
	link    *link           // nil while no guard process is up
	up      chan struct{}   // closed when link is set
	names   map[string]bool // in use by an Exec
	lease   *lease          // the newest; each command keeps the one that it began under
	session string          // whose it is
	goodbye Goodbye
	running bool     // Run is
	bound   *os.File // see BindLock; nil: not bound
	boundID string   // which file that is
	cgroup  string   // of the guard process that is up
	left    []*watch // dead guard processes of which something does not die
	stuck   error    // what Run returns, if that is of no use any more
	lack    lack
	waiting int // Execs that wait for a guard process that works

	stuckAfter time.Duration
	kill       func(*os.Process) error // ends the guard process at once

	above, unwritten atomic.Uint64 // lines of output
}

// New returns a Guard that runs nothing until Run is called.
func New(cfg Config) *Guard {
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = DefaultStopTimeout
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
	return &Guard{cfg: cfg, up: make(chan struct{}), names: map[string]bool{},
		lease: &lease{}, stuckAfter: stuckAfter, kill: (*os.Process).Kill}
}

// OutputLost counts the lines of commands' output that are missing, as the guard process has told:
// up to 30 s late. above were dropped for [output.Config.Rate]; unwritten could not be written.
// What a guard process had not copied that was killed is in neither.
func (g *Guard) OutputLost() (above, unwritten uint64) { return g.above.Load(), g.unwritten.Load() }

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
	if g.link != nil {
		g.link.setLease(*g.lease)
	}
}

// LockID names the very file that the guard process which is up now has locked, by device, inode
// and owner: whatever another guard process that had locked this file had started is gone then, but
// for what an Exec of this Guard still waits for; and no other one will get the lock before this
// one ends. It says nothing of those that had locked another file, though it may have had the same
// path. It is empty while no lock is held, while no guard process is up, and without a LockFile. A
// lock that was not free at the start is taken within about 50 ms of becoming so.
func (g *Guard) LockID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == nil {
		return ""
	}
	return g.link.holds()
}

// BindLock returns a LockID for others to be told: that of the first call that found one. From then
// on nothing is started any more unless the guard process holds this very lock: the next guard
// process, should this one die, locks the same file, even if that has lost its name. So it is as
// true of the time between two guard processes, and what is told then need not say less. It is
// empty until a lock is held, and when the file cannot be found again. The end of Run with no error
// ends it.
func (g *Guard) BindLock() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bound != nil {
		return g.boundID
	}
	if g.link == nil || g.link.holds() == "" {
		return ""
	}
	id := g.link.holds()
	f, err := os.OpenFile(g.cfg.LockFile, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	if fileID(f) != id {
		f.Close()
		return ""
	}
	g.bound, g.boundID = f, id
	return id
}

// Cgroup is the directory of the cgroup that holds those of the commands, each in one of its own;
// empty while no guard process is up, and where there is none.
func (g *Guard) Cgroup() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cgroup
}

// unbind is for the clean end of Run: nothing is left that the lock speaks for, and no guard
// process is to work.
func (g *Guard) unbind() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bound != nil {
		g.bound.Close()
	}
	g.bound, g.boundID, g.lack = nil, "", lack{}
}

// Exec runs a command and returns when nothing of it is left: neither its process, nor its group,
// nor what left the group but could be traced to it. While no guard process is up it waits for one.
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

// Kill kills all commands at once, and starts no more until the next guard process. It returns when
// nothing of them is left, or after limit. A guard process that says nothing in that time, as a
// frozen one, is killed itself: then it takes up to limit once more.
func (g *Guard) Kill(limit time.Duration) {
	g.mu.Lock()
	l := g.link
	g.mu.Unlock()
	if l == nil {
		return
	}
	l.ping()
	l.killAll()
	if !l.idleWithin(limit) && l.silent() {
		l.destroy()
		l.idleWithin(limit) // Run clears away what it left
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
			return nil, fmt.Errorf("guard: command %q: not started: %w", s.Name, context.Cause(ctx))
		}
		g.mu.Lock()
		l, up, bound, under, session := g.link, g.up, g.boundID, g.lease, g.session
		g.mu.Unlock()
		if s.Session != "" && s.Session != session {
			return nil, &ExitError{Name: s.Name, Code: -1, Reason: NotStarted, Err: ErrNoLease}
		}
		if l != nil && bound != "" && l.holds() != bound {
			g.await(ctx, l.locked, l.unlinked)
			continue
		}
		if l != nil {
			g.mu.Lock()
			j := l.start(command{
				Kind:        cmdStart,
				Name:        s.Name,
				Argv:        []string{"/bin/sh", "-c", replacing(s.Command)},
				Env:         s.Env,
				HideEnv:     g.cfg.HideEnv,
				Stdin:       s.Stdin,
				StopTimeout: g.cfg.StopTimeout,
			}, under)
			g.mu.Unlock()
			if j != nil {
				return j, nil
			}
			// It is on its way down and Run is about to say so: a moment's wait, not a loop.
			up = l.unlinked
		} else if s.NoWait {
			return nil, &ExitError{Name: s.Name, Code: -1, Reason: NotStarted, Err: ErrNotUp}
		}
		g.await(ctx, up, nil)
	}
}

// await waits for a guard process that works, or for that to be in vain.
func (g *Guard) await(ctx context.Context, up, vain <-chan struct{}) {
	count := func(n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting += n
	}
	count(1)
	defer count(-1)
	select {
	case <-up:
	case <-vain:
	case <-ctx.Done():
	}
}

// job is one command as its owner sees it.
type job struct {
	link  *link
	id    uint64
	name  string
	began time.Time // when it was handed to the link
	under *lease    // guarded by Guard.mu, but for its epoch
	// until when it can be started, by the boot clock, as its lease was when it was queued
	startBy int64
	told    int64 // when the guard process was told to start it, likewise; guarded by link.mu
	pid     int   // 0 until it has started; guarded by link.mu
	// the guard process has killed it, and goes on doing so until it is gone; guarded by link.mu
	killed bool
	done   chan struct{}
	exit   event // valid when done is closed
	lost   error // the cause, when the guard process died; valid when done is closed
}

// mayRun tells whether the guard process has started it, or may have, and been frozen before it
// could say so. What it was told too late to start, it refuses. Needs both locks.
func (j *job) mayRun() bool {
	return j.pid != 0 || j.told != 0 && j.told < max(j.startBy, j.under.startBy())
}

// over tells when the command ended, and how.
func (j *job) over(s Spec) error {
	if s.Stood != nil && j.exit.StoodFrom != 0 {
		s.Stood(time.Unix(0, j.exit.StoodFrom), time.Unix(0, j.exit.StoodTo))
	}
	if s.Ended != nil && j.exit.Reason != NotStarted {
		at, why := time.Now(), j.exit.Reason
		// else the guard process died, and its commands have just been seen to be gone
		if j.exit.Ended != 0 {
			at = time.Unix(0, j.exit.Ended)
		}
		if j.lost != nil {
			why = Lost
		}
		s.Ended(at, why)
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
	case e.Exhausted:
		return &ExitError{Name: name, Code: -1, Reason: e.Reason,
			Err: fmt.Errorf("%w: %s", ErrExhausted, e.Err)}
	case e.Err != "":
		return &ExitError{Name: name, Code: -1, Reason: e.Reason, Err: errors.New(e.Err)}
	case e.Code == 0 && e.Signal == 0 && e.Reason != LeaseEnded:
		// that it stopped well does not make the lease's end its own
		return nil
	}
	return &ExitError{Name: name, Code: e.Code, Signal: syscall.Signal(e.Signal), Reason: e.Reason}
}
