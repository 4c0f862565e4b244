package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/supervisor"
)

// commandRunner runs the candidate's command through a guard process of its own.
type commandRunner struct {
	name, id, command string
	o                 electFlags
	conn              electConn
	log               *slog.Logger
	guard             *guard.Guard
	run               func(context.Context) error // the guard's
	giveUp            func(error)                 // called when no command can run here any more
	signals           chan os.Signal

	// mu is held while a lease is forwarded, so that an older one never follows a newer one.
	mu   sync.Mutex
	done bool
	code int

	started bool   // the command was started; the duties come one after the other
	token   uint64 // of the leadership that it was started in last
	runs    uint64 // starts in it, as far as there are tokens for them
}

func newCommandRunner(o electFlags, conn electConn, name, command string,
	log *slog.Logger) (*commandRunner, error) {
	to, err := o.outputFlags.open()
	if err != nil {
		return nil, err
	}
	g, err := newGuard(guard.Config{StopTimeout: o.stopTimeout, Output: to}, o.passEnv, log)
	if err != nil {
		return nil, err
	}
	return &commandRunner{name: name, id: o.id, command: command, o: o, conn: conn, log: log,
		signals: make(chan os.Signal, 16), guard: g, run: g.Run,
		giveUp: func(err error) { endAtOnce(log, err) }}, nil
}

// endAtOnce ends this process as if it had been killed: it is not known what still runs, and its
// session must not end before its time. To stop well would wait for that, and renew the session.
func endAtOnce(log *slog.Logger, err error) {
	log.Error("gave-up", "err", err, "then", "others lead when the session has run out")
	asynclog.Flush(log, flushLimit/10)
	os.Exit(exitFailed)
}

// runGuard keeps the guard process running, and forwards every lease to it, until ctx ends, or no
// command can run any more.
func (r *commandRunner) runGuard(ctx context.Context, group *sync.WaitGroup) error {
	tree, err := supervisor.New("coordd", supervisor.Tree{MaxRestarts: -1,
		Children: []supervisor.Child{
			guardChild(r.run, r.o.stopTimeout),
			forwarder("lease-forwarder", r.conn.Contact(), func(election.Contact) {
				r.forwardLease()
			}),
		}}, supervisor.WithLogger(r.log))
	if err != nil {
		return err
	}
	pass := func() {
		select {
		case r.signals <- syscall.SIGHUP:
		default: // as signal.Notify does
		}
	}
	onHangup.Store(&pass)
	signal.Notify(r.signals, syscall.SIGUSR1, syscall.SIGUSR2)
	group.Go(func() {
		defer signal.Stop(r.signals)
		if err := tree.Run(ctx); errors.Is(err, guard.ErrStuck) {
			r.giveUp(err) // else the tree logs what did not stop
		}
	})
	return nil
}

// forwardLease tells the guard process until when the command may run, and how to resign should
// this process die.
func (r *commandRunner) forwardLease() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.conn.Contact().Get()
	if s.Session == "" {
		r.guard.Lease("", time.Time{}, 0)
		r.guard.Goodbye(guard.Goodbye{})
		return
	}
	margin := r.o.margin
	if margin == 0 {
		margin = s.Lease.TTL / 10
	}
	r.guard.Lease(s.Session, s.Lease.Start.Add(s.Lease.TTL), margin)
	words, err := json.Marshal(goodbye{
		consulFlags: r.o.consulFlags, LogFormat: r.o.format, LogLevel: r.o.level,
		Candidacy: &deadCandidacy{Election: r.name, Candidate: r.id, Session: s.Session,
			Prefix: r.o.prefix, ZooKeeper: r.o.zookeeper.withAbsolutePaths()},
	})
	if err == nil {
		r.guard.Goodbye(guard.Goodbye{Words: words, Limit: 2 * max(r.o.ttl, s.Lease.TTL)})
	}
}

// runCommand is the candidate's duty. A command that has ended by itself is not started again.
func (r *commandRunner) runCommand(ctx context.Context, s election.Status) error {
	if _, done := r.exited(); done {
		return nil
	}
	if r.started && r.o.once {
		return fmt.Errorf("%w: its lease had run out, and with --once it is not begun again",
			errCommandStopped)
	}
	r.started = true
	if r.token != s.Token {
		r.token, r.runs = s.Token, 0
	}
	r.runs = min(r.runs+1, facts.Runs-1)
	r.forwardLease() // the forwarder may be late
	for len(r.signals) > 0 {
		<-r.signals // they were for nobody
	}
	env := []string{
		"COORDD_ELECTION=" + r.name,
		"COORDD_TOKEN=" + strconv.FormatUint(facts.Token(s.Token, r.runs), 10),
		"COORDD_MEMBER=" + r.id,
	}
	if !s.Period.IsZero() {
		env = append(env, "COORDD_PERIOD="+s.Period.Format(time.RFC3339))
	}
	byItself := false
	err := r.guard.Exec(ctx, guard.Spec{
		Session: s.Session,         // there may be another one since
		NoWait:  s.Period.IsZero(), // others may be able to run it, but not again
		Name:    r.name, Command: r.command, Signals: r.signals,
		Ended: func(_, _ time.Time, why guard.Reason) { byItself = why == guard.Ended },
		Env:   env,
	})
	if !s.Period.IsZero() {
		return err // of this period's run
	}
	exit, ok := errors.AsType[*guard.ExitError](err)
	switch {
	case byItself && ok && exit.Signal != 0:
		// also when its lease has run out since: this process may have stood still
		r.commandEnded(128 + int(exit.Signal))
		return nil
	case byItself && ok:
		r.commandEnded(exit.Code)
		return nil
	case byItself:
		r.commandEnded(0)
		return nil
	case ctx.Err() != nil: // it was told to stop
		return nil
	case err == nil:
		return errCommandStopped
	case ok && exit.Interrupted():
		return fmt.Errorf("%w: %w", errCommandStopped, err)
	}
	return err
}

func (r *commandRunner) commandEnded(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.code = true, code
}

// exited tells whether the command has ended by itself, and with which exit code.
func (r *commandRunner) exited() (code int, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code, r.done
}

// deadCandidacy is what the guard process needs to resign for a candidate that was killed.
type deadCandidacy struct {
	Prefix, Election, Candidate, Session string
	ZooKeeper                            zookeeperFlags // no servers: Consul
}

// resign runs in the guard process.
func (c deadCandidacy) resign(ctx context.Context, consul consulFlags, log *slog.Logger) {
	log = log.With("election", c.Election, "candidate", c.Candidate, "session", c.Session)
	led, err := c.depart(ctx, consul, log)
	if err != nil {
		log.Warn("no-goodbye-for-killed-coordd", "err", err, "then",
			"others lead when its session is over, and its lock-delay")
		return
	}
	log.Info("said-goodbye-for-killed-coordd", "led", led)
}

func (c deadCandidacy) depart(ctx context.Context, consul consulFlags, log *slog.Logger) (led bool,
	err error) {
	if len(c.ZooKeeper.Servers) > 0 {
		o := electFlags{zookeeper: c.ZooKeeper, prefix: c.Prefix}
		cfg, err := o.zooKeeperConfig(log)
		if err != nil {
			return false, err
		}
		return onzk.Depart(ctx, cfg, c.Election, c.Session)
	}
	client, address, err := consul.client()
	if err != nil {
		return false, err
	}
	return onconsul.Depart(ctx, onconsul.Config{Client: client, Consul: address, Prefix: c.Prefix,
		Logger: log}, c.Election, c.Session)
}
