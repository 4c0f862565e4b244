//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// guardMain is the hidden command that package guard starts this binary with.
func guardMain() int { return guard.Main(sayGoodbye) }

// commands runs one shell command for each owned item, through a guard process that stops them when
// the lease is over, whatever becomes of this process, and hands the items over when this process
// dies.
type commands struct {
	command, service, member string
	margin                   time.Duration
	stopTimeout              time.Duration
	goodbye                  goodbye
	wait, limit              time.Duration // of the goodbye
	guard                    *guard.Guard

	// held while a lease is passed on, so that an older one never follows a newer one
	mu         sync.Mutex
	session    messages.Reader[messages.Session]
	membership messages.Reader[messages.Membership]
}

func newCommands(o runFlags, margin time.Duration, log *slog.Logger) (*commands, error) {
	if err := guard.CheckHost(); err != nil {
		return nil, err
	}
	lock := lockFile(o.service, o.id)
	if err := checkLock(lock); err != nil {
		return nil, err
	}
	hidden, err := secrets(os.Environ(), o.passEnv)
	if err != nil {
		return nil, err
	}
	c := &commands{
		command: o.exec, service: o.service, member: o.id, margin: margin,
		stopTimeout: o.stopTimeout,
		goodbye: goodbye{
			Service: o.service, Consul: o.consul, LogFormat: o.format, LogLevel: o.level,
			Leaving: leavingMember{Member: o.id},
		},
		// Beyond twice the ttl Consul has ended the session by itself.
		wait: o.restartWait, limit: 2 * o.ttl,
		guard: guard.New(guard.Config{Logger: log, StopTimeout: o.stopTimeout, LockFile: lock,
			Adopt: true, HideEnv: hidden, Up: supervisor.Ready}),
	}
	killAtOnce(c.guard)
	return c, nil
}

// killAtOnce is for the second signal. The time is for a process that cannot be killed just now.
func killAtOnce(g *guard.Guard) {
	kill := func() { g.Kill(2 * time.Second) }
	atOnce.Store(&kill)
}

// attend shows this process to the guard process of a killed predecessor with the same id.
func attend(service, member string) (leave func(), err error) {
	p, err := guard.Announce(lockFile(service, member))
	if err != nil {
		return func() {}, fmt.Errorf("%w; %s", err, runtimeDirFrom)
	}
	return p.Leave, nil
}

// idleLiveness is liveness for a member without commands of its own: its predecessor may have had
// some.
func idleLiveness(service, member string) func(actors.Process) actors.Liveness {
	// none of its commands is left, and none will come back
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

// liveness tells whether a predecessor and its commands still run. These outlive a killed coordd by
// as long as they take to stop. The lock of another file, under another TMPDIR or another user,
// says nothing of them.
func (c *commands) liveness(p actors.Process) actors.Liveness {
	l := p.Liveness()
	if l == actors.Dead && p.Lock != actors.NoLock && (p.Lock == "" || p.Lock != c.guard.LockID()) {
		return actors.Unknown
	}
	return l
}

// lock is what a successor must hold to know that no command is left.
func (c *commands) lock() string { return c.guard.BindLock() }

// follow says whose lease the commands depend on, and whose record the guard takes back. It comes
// before anything runs.
func (c *commands) follow(session messages.Reader[messages.Session],
	membership messages.Reader[messages.Membership]) {
	c.session, c.membership = session, membership
}

// work is the member's work function.
func (c *commands) work(ctx context.Context, item actors.Item) error {
	// The feeder may not have run since the session was opened: what may start here may start
	// there.
	session := c.passOn()
	if !c.membership.Get().In(session) {
		return fmt.Errorf("%w: the session is another one, and not registered yet",
			guard.ErrNoLease)
	}
	return c.guard.Exec(ctx, guard.Spec{
		Session: session,
		Name:    item.ID, Command: c.command, Stdin: item.Payload,
		Env: []string{
			"COORDD_ITEM=" + item.ID,
			"COORDD_TOKEN=" + strconv.FormatUint(item.Token, 10),
			"COORDD_MEMBER=" + c.member,
			"COORDD_SERVICE=" + c.service,
		},
		Ended: func(at time.Time, _ guard.Reason) { ended(ctx, at) },
	})
}

// passOn tells the guard until when work may run, and returns under which session.
func (c *commands) passOn() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session.Get()
	if s.ID == "" {
		c.guard.Lease("", time.Time{}, 0)
		return ""
	}
	c.guard.Lease(s.ID, s.Lease.Start.Add(s.Lease.TTL), c.margin)
	return s.ID
}

// feed is the actor that passes every renewal on.
func (c *commands) feed(ctx context.Context) error {
	cursor := c.session.Subscribe()
	for {
		if _, err := cursor.Next(ctx); err != nil {
			return nil
		}
		c.passOn()
	}
}

// tell is the actor that keeps the goodbye up to date.
func (c *commands) tell(ctx context.Context) error {
	cursor := c.membership.Subscribe()
	for {
		m, err := cursor.Next(ctx)
		if err != nil {
			return nil
		}
		c.guard.Goodbye(guard.Goodbye{Words: c.goodbye.words(m), Wait: c.wait, Limit: c.limit})
	}
}

// children are started before the coordinator and so stopped after it: the
// guard ends when all work has. The gate is for liveness: whether commands are
// left is known when the coordinator starts.
func (c *commands) children() []supervisor.Child {
	return []supervisor.Child{
		{Name: "guard", Gate: true, StopTimeout: c.stopTimeout + 10*time.Second,
			Run: func(ctx context.Context) error {
				if err := c.guard.Run(ctx); err != nil {
					return fmt.Errorf("the guard process: %w", err)
				}
				return nil
			}},
		{Name: "lease-feeder", Run: c.feed},
		{Name: "goodbye-feeder", Run: c.tell},
	}
}
