package onconsul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// Conn is one session with Consul, shared by any number of elections. It is safe for concurrent
// use.
type Conn struct {
	cfg     Config
	store   store.Store
	log     *slog.Logger
	contact *messages.State[election.Contact]
	session *messages.State[facts.Session] // the same, and its check
	check   *messages.State[facts.Check]
	keeper  *store.CheckKeeper // of check
	binding *store.Binding     // of session to check
	polls   store.Polls        // renewed when a renewal has succeeded after a failed one
	wake    chan struct{}      // cap 1: a session is wanted, or has to be asked about
	crew    *backend.Crew
	stop    context.CancelFunc
	work    sync.WaitGroup // run

	mu     sync.Mutex
	wanted bool // somebody needs a session
	// liveSession is the session until it is known to have ended, also after Close.
	liveSession string
	watching    int   // elections that are taken part in
	trouble     error // why no session could be opened at the last try
}

// Connect returns a connection at once; Consul need not be there yet. It opens a session when the
// first candidate joins: followers and operators need none. The error is election.ErrInvalid.
func Connect(cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s, err := store.Open(store.Config{Client: cfg.Client, Address: cfg.Consul, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{
		cfg: cfg, store: s, log: cfg.Logger, contact: messages.NewState(election.Contact{}),
		wake: make(chan struct{}, 1), crew: backend.NewCrew(cfg.Logger), stop: cancel,
		session: messages.NewState(facts.Session{}), check: messages.NewState(facts.Check{}),
	}
	c.keepCheck()
	c.work.Go(func() { c.run(ctx) })
	return c, nil
}

// Open implements election.Connection.
func (c *Conn) Open(name string) (election.Backend, error) {
	if err := election.CheckName("election", name); err != nil {
		return nil, err
	}
	// Some prefixes make no keys, and some make none with some names.
	if err := store.CheckKey("the key of the leader", c.LeaderKey(name)); err != nil {
		return nil, fmt.Errorf("%w: %w; give another prefix or name", election.ErrInvalid, err)
	}
	return backend.New(&keyStore{c, keysOf(c.cfg.Prefix, name)}, c.crew, backend.Settings{
		Name: name, HoldBack: c.cfg.HoldBack, Logger: c.log,
		LockDelay: func() time.Duration { return c.cfg.LockDelay },
	}), nil
}

// LeaderKey returns the key that the leader of an election holds. A host can guard its own
// transactions with it.
func (c *Conn) LeaderKey(name string) string { return keysOf(c.cfg.Prefix, name).leader() }

// Contact is the session and its lease.
func (c *Conn) Contact() messages.Reader[election.Contact] { return c.contact.Reader() }

// Close ends the session and with it all elections of this connection: those that are not over fail
// with election.ErrClosed. End them first: a leader whose duties have not ended leaves the session
// to expire, or to end with its check. It takes at most about three seconds when Consul does not
// answer, unless a transport of the host's does not return when the context of a request has ended.
// It may be called twice.
func (c *Conn) Close() {
	c.stop()
	c.work.Wait()
}

// run is the goroutine of the connection, until it is closed.
func (c *Conn) run(ctx context.Context) {
	// Reports go on until the session has ended.
	reports, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	contained.Run(c.log, "the loop that renews the session", func() error {
		c.renew(ctx, sync.OnceFunc(func() { keeper.Go(func() { c.report(reports) }) }))
		return nil
	}, func(err error) {
		left := true
		_ = contained.Call(c.log, "the end of the session", func() error {
			left = c.close(err)
			return nil
		})
		stop()
		keeper.Wait()
		if !left { // else the session would end at once
			c.deregister()
		}
	})
}

// renew keeps the session. register is called when one is wanted.
func (c *Conn) renew(ctx context.Context, register func()) {
	renewal := store.Renewal{
		Store: c.store, Every: c.cfg.Renew, Lease: c.cfg.Lease, Log: c.log,
		Session: store.SessionOptions{Name: c.cfg.Name, TTL: c.cfg.TTL, LockDelay: c.cfg.LockDelay},
	}
	defer renewal.Wait()
	defer c.stop() // after a panic nobody has asked for the end
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	check := c.check.Subscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-check.Changed():
			if check.Take(); c.session.Get().ID != "" {
				continue
			}
		case <-timer.C:
		}
		now := c.session.Get()
		var err error
		var wait time.Time // for what the check says; zero: for nothing
		switch {
		case now.ID != "":
			err = c.keep(ctx, &renewal, now)
		case c.wantsSession():
			if register(); c.cfg.CheckTTL != NoCheck {
				renewal.Session.Check, wait = c.binding.Choose(ctx)
			}
			if wait.IsZero() {
				err = c.keep(ctx, &renewal, now)
				c.binding.Tried(err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if renewal.Failing() {
				c.polls.Renew()
			}
		case errors.Is(err, store.ErrSessionGone):
			c.log.Warn("session-lost", "session", now.ID, "why", err)
			c.forgetSession()
			c.session.Set(facts.Session{Count: now.Count})
			c.contact.Set(election.Contact{Why: c.lost(now)})
		case now.ID == "":
			c.noteTrouble(err)
		}
		if err == nil && !wait.IsZero() {
			timer.Reset(time.Until(wait))
			continue
		}
		held := c.session.Get()
		due := renewal.Due(err, held.Lease)
		if err != nil || held.ID != "" {
			timer.Reset(time.Until(due))
		}
	}
}

// keep opens or renews the session and publishes it.
func (c *Conn) keep(ctx context.Context, renewal *store.Renewal, now facts.Session) error {
	id, lease, err := renewal.Ask(ctx, now.ID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.liveSession, c.trouble = id, nil
	c.mu.Unlock()
	if now.ID == "" {
		now.Count, now.Check = now.Count+1, renewal.Session.Check
	}
	now.ID, now.Lease = id, lease
	c.session.Set(now)
	contact := c.contact.Get()
	contact.Session, contact.Lease = id, lease
	c.contact.Set(contact)
	return nil
}

// noteTrouble records why no session can be opened, and tells those who wait for one.
func (c *Conn) noteTrouble(err error) {
	c.mu.Lock()
	c.trouble = err
	c.mu.Unlock()
	if c.refusal() != nil {
		contact := c.contact.Get()
		contact.Why = err.Error()
		c.contact.Set(contact)
	}
}

// refusal is why Consul refuses to open a session: under these settings it always will, or its
// access rules deny it. nil: it does not.
func (c *Conn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.trouble; {
	case errors.Is(err, store.ErrInvalid):
		return fmt.Errorf("%w: %w", election.ErrInvalid, err)
	case errors.Is(err, store.ErrUnknownToken):
		return fmt.Errorf("%w: no session: %w", election.ErrDenied, err)
	case errors.Is(err, store.ErrDenied):
		return fmt.Errorf("%w: no session: %w; give the token write on its node (session_prefix)",
			election.ErrDenied, err)
	}
	return nil
}

// wantsSession tells whether anybody needs a session.
func (c *Conn) wantsSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// awaitSession returns the session, and waits for one if there is none.
func (c *Conn) awaitSession(ctx context.Context) (string, error) {
	if s := c.contact.Get(); s.Session != "" {
		return s.Session, nil
	}
	c.mu.Lock()
	c.wanted, c.trouble = true, nil
	c.mu.Unlock()
	c.wakeRun()
	wait, cancel := context.WithTimeout(ctx, store.DefaultCallTimeout)
	defer cancel()
	s, _ := c.contact.Reader().Wait(wait, func(s election.Contact) bool {
		return s.Session != "" || s.Closed || c.refusal() != nil
	})
	switch refused := c.refusal(); {
	case s.Closed:
		return "", election.ErrClosed
	case s.Session != "":
		return s.Session, nil
	case refused != nil:
		return "", refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble == nil {
		return "", errors.New("no session yet: Consul has not answered")
	}
	return "", fmt.Errorf("no session yet: %w", c.trouble)
}

// wakeRun has the loop that renews the session look what there is to do.
func (c *Conn) wakeRun() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// countElection counts one more Watch, and refuses it above MaxElections. done takes it back.
func (c *Conn) countElection() (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watching >= c.cfg.MaxElections {
		return nil,
			fmt.Errorf("%w: this connection takes part in %d elections already, each with a long "+
				"poll, and Consul takes 200 connections from one address: "+
				"raise Consul's limits.http_max_conns_per_client and then Config.MaxElections, "+
				"or share them out over several hosts",
				election.ErrInvalid, c.watching)
	}
	c.watching++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watching--
	}, nil
}

// lost says how a session has ended that Consul no longer knows. Consul ends a session no earlier
// than its TTL, or the TTL of the check that it is bound to.
func (c *Conn) lost(s facts.Session) string {
	how := "was ended before its time: an operator destroyed it, its node has gone, or Consul " +
		"has lost it"
	switch {
	case time.Since(s.Lease.Start) >= c.cfg.TTL:
		how = fmt.Sprintf("expired: its ttl is %v", c.cfg.TTL)
	// A report may have come through before the session was asked about: the check passes again.
	case c.check.Get().Lapsed(s, time.Now(), c.cfg.CheckTTL), s.Check != "" &&
		time.Since(s.Lease.Start) >= max(c.cfg.CheckTTL, 2*c.cfg.Renew):
		how = fmt.Sprintf("expired with its check, whose ttl is %v", c.cfg.CheckTTL)
	}
	return fmt.Sprintf("session %s %s; Consul last heard of it at %s", s.ID, how,
		s.Lease.Start.Format("15:04:05.000"))
}

// forgetSession drops what has gone with the session.
func (c *Conn) forgetSession() {
	c.mu.Lock()
	c.liveSession = ""
	c.mu.Unlock()
	c.crew.Lost()
}

// liveID is the session whose keys may be there; empty: there is none.
func (c *Conn) liveID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.liveSession
}

// sessionLives tells whether the keys of the session still have to be removed.
func (c *Conn) sessionLives(session string) bool {
	return session != "" && c.liveID() == session
}

// close ends the session, unless one of its leaders has not released: then it is left to expire.
// broken is why nobody renews it any more; nil: it was asked for.
func (c *Conn) close(broken error) (left bool) {
	now := c.contact.Get()
	c.contact.Set(election.Contact{Closed: true, Broken: broken})
	soon, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	c.crew.Settle(soon) // a leader that has resigned counts until that is written
	c.crew.Stop()
	if now.Session == "" {
		return false
	}
	if leading := c.crew.Leading(); leading > 0 {
		c.log.Error("session-left-to-expire", "session", now.Session, "leading", leading)
		return true
	}
	call, cancelCall := context.WithTimeout(context.Background(), closePatience)
	defer cancelCall()
	if err := c.store.DestroySession(call, now.Session); err != nil {
		c.log.Warn("session-not-destroyed", "session", now.Session, "err", err, "then",
			"it expires by itself within twice its ttl")
		return false
	}
	c.forgetSession()
	return false
}

// closePatience bounds each of the two waits of Close for Consul.
const closePatience = time.Second
