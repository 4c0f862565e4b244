package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/internal/output"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// commands runs one shell command for each owned item, through a guard process. The guard process
// stops the commands when the lease is over, also when this process is frozen, and hands the items
// over when this process dies.
type commands struct {
	o       runFlags
	margin  time.Duration
	goodbye goodbye
	guard   *guard.Guard

	session    messages.Reader[facts.Session]
	membership messages.Reader[facts.Membership]
	mu         sync.Mutex // held while a lease is forwarded: an older one never follows a newer one
}

// newCommands makes what runs them. To is where their output goes, as o says and was opened.
func newCommands(o runFlags, to output.Config, margin time.Duration,
	log *slog.Logger) (*commands, error) {
	if o.starts < 0 || o.starts > 1000 { // each has a thread of its own
		return nil, usage("--starts-at-once %d: give 1 to 1000, or 0 for the processors", o.starts)
	}
	lock := lockFile(o.service, o.id)
	if err := checkLock(lock); err != nil {
		return nil, err
	}
	g, err := newGuard(guard.Config{StopTimeout: o.stopTimeout, LockFile: lock,
		Starts: o.starts, Output: to},
		o.passEnv, log)
	if err != nil {
		return nil, err
	}
	removePayloads(lockFile(o.service, o.id))
	return &commands{o: o, margin: margin, guard: g, goodbye: goodbye{
		Service: o.service, consulFlags: o.consulFlags, LogFormat: o.format, LogLevel: o.level,
		Leaving: leavingMember{Member: o.id},
	}}, nil
}

// announce shows this process to the guard process of a killed predecessor with the same id.
func announce(service, member string) (leave func(), err error) {
	p, err := guard.Announce(lockFile(service, member))
	if err != nil {
		return func() {}, fmt.Errorf("%w; %s", err, runtimeDirFrom)
	}
	return p.Leave, nil
}

// idleLiveness is liveness for a member that runs no commands. Its predecessor may have run some.
func idleLiveness(service, member string) func(actors.Process) actors.Liveness {
	// the last dead process that is known to have left no command
	gone := actors.Process{Lock: actors.NoLock}
	return func(p actors.Process) actors.Liveness {
		l := p.Liveness()
		switch {
		case l != actors.Dead || p.Lock == actors.NoLock || p == gone:
			return l
		case !guard.LeftNothing(lockFile(service, member), p.Lock):
			return actors.Unknown
		}
		gone = p
		return l
	}
}

// lockFile is what the guard processes of one member lock, one after the other. Call makeRuntimeDir
// before it is used.
func lockFile(service, member string) string {
	name := sha256.Sum256([]byte(service + "/" + member)) // a member's id holds no slash
	return filepath.Join(runtimeDir(), fmt.Sprintf("%x.lock", name[:8]))
}

// liveness tells whether a predecessor or a command of it still runs. Commands outlive a killed
// coordd by the time that they take to stop. Only the very lock that the predecessor's guard held
// shows that they are gone: under another TMPDIR or another user it is another file.
func (c *commands) liveness(p actors.Process) actors.Liveness {
	l := p.Liveness()
	if l == actors.Dead && p.Lock != actors.NoLock && (p.Lock == "" || p.Lock != c.guard.LockID()) {
		return actors.Unknown
	}
	return l
}

// work is the member's work function.
func (c *commands) work(ctx context.Context, item actors.Item) error {
	err := c.run(ctx, item)
	if e, ok := errors.AsType[*guard.ExitError](err); ok && e.Interrupted() {
		return actors.Interrupted(err)
	}
	return err
}

func (c *commands) run(ctx context.Context, item actors.Item) error {
	session := c.forwardLease() // the forwarder may be late
	if !c.membership.Get().In(session) {
		return &guard.ExitError{Name: item.ID, Code: -1, Reason: guard.NotStarted,
			Err: fmt.Errorf("%w: the session is another one, and not registered yet",
				guard.ErrNoLease)}
	}
	item.Runs(false) // it may wait for its turn
	spec := guard.Spec{
		Session: session, Runs: item.Runs,
		Name: item.ID, Command: c.o.exec, Stdin: item.Payload,
		Env: []string{
			"COORDD_ITEM=" + item.ID,
			"COORDD_TOKEN=" + strconv.FormatUint(item.Token, 10),
			"COORDD_GRANT=" + strconv.FormatUint(item.Grant, 10),
			"COORDD_MEMBER=" + c.o.id,
			"COORDD_SERVICE=" + c.o.service,
		},
		Ended: func(ran, at time.Time, _ guard.Reason) { ended(ctx, ran, at) },
		Stood: func(from, to time.Time) { stood(ctx, from, to) },
	}
	if err := c.before(ctx, spec); err != nil {
		return err
	}
	if item.Changes != nil {
		return c.execSignalled(ctx, item, spec)
	}
	return c.guard.Exec(ctx, spec)
}

// before runs the hook that ends what an earlier run of the command left at work, such as a
// container. It ends with the lease, as the command does.
func (c *commands) before(ctx context.Context, spec guard.Spec) error {
	if c.o.beforeStart == "" {
		return nil
	}
	spec.Command, spec.Ended, spec.Stood, spec.Runs = c.o.beforeStart, nil, nil, nil
	limited, cancel := context.WithTimeout(ctx, c.o.beforeStartTimeout)
	defer cancel()
	err := c.guard.Exec(limited, spec)
	switch {
	case err == nil && limited.Err() == nil:
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("--before-start did not end within --before-start-timeout %v: %w",
			c.o.beforeStartTimeout, cmp.Or(err, limited.Err()))
	}
	return fmt.Errorf("--before-start: %w", cmp.Or(err, limited.Err()))
}

// forwardLease tells the guard until when work may run, and returns under which session.
func (c *commands) forwardLease() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session.Get()
	if s.ID == "" {
		c.guard.Lease("", time.Time{}, 0)
	} else {
		c.guard.Lease(s.ID, s.Lease.Start.Add(s.Lease.TTL), c.margin)
	}
	return s.ID
}

// children are the guard and what it is told: whose lease the commands depend on, and whose record
// the guard takes back.
func (c *commands) children(session messages.Reader[facts.Session],
	membership messages.Reader[facts.Membership]) []supervisor.Child {
	c.session, c.membership = session, membership
	return []supervisor.Child{
		guardChild(c.guard.Run, c.o.stopTimeout),
		forwarder("lease-forwarder", session, func(facts.Session) { c.forwardLease() }),
		forwarder("goodbye-forwarder", membership, func(m facts.Membership) {
			// Beyond twice the TTL Consul has ended the session by itself.
			c.guard.Goodbye(guard.Goodbye{Words: c.goodbye.words(m), Wait: c.o.restartWait,
				Limit: 2 * c.o.ttl})
		}),
	}
}
