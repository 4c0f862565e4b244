//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/guard"
)

// candidate runs the command of one candidate through a guard process of its own.
type candidate struct {
	name, id, command string
	o                 electFlags
	conn              electConn
	log               *slog.Logger
	guard             *guard.Guard
	signals           chan os.Signal

	// held while a lease is passed on, so that an older one never follows a newer one
	mu   sync.Mutex
	done bool
	code int

	begun bool // a command was; the duties come one after the other
}

// electLock is how the names of candidates' lock files begin.
const electLock = "elect-"

func newCandidate(o electFlags, conn electConn, name, command string, log *slog.Logger) (*candidate,
	error) {
	if err := guard.CheckHost(); err != nil {
		return nil, err
	}
	// Nobody else may use it: it is there because a farewell needs one.
	lock := filepath.Join(runtimeDir(), fmt.Sprintf("%s%d-%d.lock", electLock, os.Getpid(),
		time.Now().UnixNano()))
	if err := makeRuntimeDir(); err != nil {
		return nil, err
	}
	guard.RemoveFree(runtimeDir(), electLock)
	if err := checkLock(lock); err != nil {
		return nil, err
	}
	hidden, err := secrets(os.Environ(), o.passEnv)
	if err != nil {
		return nil, err
	}
	c := &candidate{
		name: name, id: o.id, command: command, o: o, conn: conn, log: log,
		signals: make(chan os.Signal, 16),
		guard: guard.New(guard.Config{Logger: log, StopTimeout: o.stopTimeout, LockFile: lock,
			OwnLock: true, Adopt: true, HideEnv: hidden}),
	}
	killAtOnce(c.guard)
	return c, nil
}

// keep keeps the guard process up and told, until ctx ends.
func (c *candidate) keep(ctx context.Context, group *sync.WaitGroup) {
	signal.Notify(c.signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	group.Go(func() {
		defer signal.Stop(c.signals)
		for {
			err := c.guard.Run(ctx)
			if ctx.Err() != nil {
				return
			}
			c.log.Error("guard-process-died", "err", err, "then",
				"its command is gone; starting another")
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	group.Go(func() {
		for contact := c.conn.Contact().Subscribe(); ; {
			if _, err := contact.Next(ctx); err != nil {
				return
			}
			c.passOn()
		}
	})
}

// passOn tells the guard process until when the command may run, and what to give up should this
// process die.
func (c *candidate) passOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.conn.Contact().Get()
	if s.Session == "" {
		c.guard.Lease("", time.Time{}, 0)
		c.guard.Farewell(guard.Farewell{})
		return
	}
	margin := c.o.margin
	if margin == 0 {
		margin = s.Lease.TTL / 10
	}
	c.guard.Lease(s.Session, s.Lease.Start.Add(s.Lease.TTL), margin)
	words, err := json.Marshal(farewell{
		Consul: c.o.consul, LogFormat: c.o.format, LogLevel: c.o.level,
		Candidacy: &candidacy{Election: c.name, Candidate: c.id, Session: s.Session,
			Prefix: c.o.prefix, ZooKeeper: c.o.zookeeper.rooted()},
	})
	if err == nil {
		c.guard.Farewell(guard.Farewell{Words: words, Limit: 2 * s.Lease.TTL})
	}
}

// lead is the duty: the command. One that has ended by itself is not begun again.
func (c *candidate) lead(ctx context.Context, s election.Status) error {
	if _, done := c.exited(); done {
		return nil
	}
	if c.begun && c.o.once {
		return fmt.Errorf("%w: its lease had run out, and with --once it is not begun again",
			errCommandCut)
	}
	c.begun = true
	c.passOn() // the feeder may not have come to it
	for len(c.signals) > 0 {
		<-c.signals // they were for nobody
	}
	byItself := false
	err := c.guard.Exec(ctx, guard.Spec{
		Session: s.Session, // there may be another one since
		Name:    c.name, Command: c.command, Signals: c.signals,
		Ended: func(_ time.Time, why guard.Reason) { byItself = why == guard.Ended },
		Env: []string{
			"COORDD_ELECTION=" + c.name,
			"COORDD_TOKEN=" + strconv.FormatUint(s.Token, 10),
			"COORDD_MEMBER=" + c.id,
		},
	})
	exit, ok := errors.AsType[*guard.ExitError](err)
	switch {
	case byItself && ok && exit.Signal != 0:
		// also when its lease has run out since: this process may have stood still
		c.ended(128 + int(exit.Signal))
		return nil
	case byItself && ok:
		c.ended(exit.Code)
		return nil
	case byItself:
		c.ended(0)
		return nil
	case ctx.Err() != nil: // it was told to stop
		return nil
	case err == nil:
		return errCommandCut
	case errors.Is(err, guard.ErrNoLease), errors.Is(err, guard.ErrLost), ok &&
		exit.Reason == guard.LeaseEnded:
		return fmt.Errorf("%w: %w", errCommandCut, err)
	}
	return err
}

func (c *candidate) ended(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.code = true, code
}

// exited tells whether the command has ended by itself, and how.
func (c *candidate) exited() (code int, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.done
}

// candidacy is the farewell of a candidate that was killed.
type candidacy struct {
	Prefix, Election, Candidate, Session string
	ZooKeeper                            zookeeperFlags // no servers: Consul
}

// resign is the guard process's part.
func (c candidacy) resign(ctx context.Context, consul string, log *slog.Logger) {
	log = log.With("election", c.Election, "candidate", c.Candidate, "session", c.Session)
	led, err := c.depart(ctx, consul, log)
	if err != nil {
		log.Warn("no-goodbye-for-killed-coordd", "err", err, "then",
			"others lead when its session is over, and its lock-delay")
		return
	}
	log.Info("said-goodbye-for-killed-coordd", "led", led)
}

func (c candidacy) depart(ctx context.Context, consul string, log *slog.Logger) (led bool,
	err error) {
	if len(c.ZooKeeper.Servers) > 0 {
		o := electFlags{zookeeper: c.ZooKeeper, prefix: c.Prefix}
		cfg, err := reading(ctx, func() (onzk.Config, error) { return o.onZooKeeper(log) })
		if err != nil {
			return false, err
		}
		return onzk.Depart(ctx, cfg, c.Election, c.Session)
	}
	client, _, err := (&serviceFlags{consul: consul}).client(ctx)
	if err != nil {
		return false, err
	}
	return onconsul.Depart(ctx, client, c.Prefix, c.Election, c.Session)
}
