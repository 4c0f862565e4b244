package onconsul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/hashicorp/consul/api"
)

// Defaults of Config.
const (
	DefaultTTL    = 10 * time.Second
	DefaultPrefix = "election/"
	// DefaultMaxElections leaves a quarter of the connections that Consul takes to renewals, to
	// orders and to others on the host.
	DefaultMaxElections = 150
)

// Config is what a Conn is made of. Only Client is required.
type Config struct {
	// Client talks to Consul. Over TLS it should speak HTTP/1.1 only, with one idle connection at
	// most: see actors.Config.Client.
	Client *api.Client
	// Name of the session, for Consul's listings. Default "election".
	Name string
	// TTL of the session: 10 s to 24 h. Default 10 s.
	TTL time.Duration
	// Renew is the time between two renewals. Default TTL/3.
	Renew time.Duration
	// LockDelay is how long Consul keeps the leadership from being taken after a session ended
	// without having given it up. Default: the TTL, at most 60 s, which is what Consul takes. From
	// the TTL on there are no two leaders even when somebody ends the session of one who cannot
	// hear of it; a shorter one makes the take-over after a crash that much quicker.
	LockDelay time.Duration
	// Prefix of all keys; it ends in a slash. Default "election/".
	Prefix string
	// MaxElections bounds how many elections are taken part in at one time over this connection:
	// candidates and followers. Each costs a long poll, and Consul takes 200 connections from one
	// address unless its limits.http_max_conns_per_client says otherwise: beyond that renewals
	// would be refused, too, and all leaderships lost. Default 150. Who is one too many gets
	// election.ErrInvalid.
	MaxElections int
	// HoldBack is how long others wait for the candidate of a hand-over once the leadership is
	// free. Default 5 s.
	HoldBack time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	or(&c.TTL, DefaultTTL)
	or(&c.Renew, c.TTL/3)
	or(&c.LockDelay, min(c.TTL, store.MaxLockDelay))
	or(&c.HoldBack, 5*time.Second)
	if c.MaxElections == 0 {
		c.MaxElections = DefaultMaxElections
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Name == "" {
		c.Name = "election"
	}
	c.Logger = asynclog.Wrap(c.Logger)
	return c
}

// Validate reports all that is wrong with the settings at once, as election.ErrInvalid.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{election.ErrInvalid},
			args...)...))
	}
	if c.Client == nil {
		wrong("Client is nil; pass a Consul API client")
	}
	if err := (store.SessionOptions{TTL: c.TTL, LockDelay: c.LockDelay}).Validate(); err != nil {
		wrong("%v", err)
	}
	if c.Renew < 0 || c.Renew > c.TTL/2 {
		wrong("Renew is %v; it must be positive and at most half the TTL of %v", c.Renew, c.TTL)
	}
	if c.MaxElections < 0 {
		wrong("MaxElections is %d; give a positive number, or 0 for %d", c.MaxElections,
			DefaultMaxElections)
	}
	if c.HoldBack < 0 {
		wrong("HoldBack is %v; give a positive duration", c.HoldBack)
	}
	if !strings.HasSuffix(c.Prefix, "/") || strings.HasPrefix(c.Prefix, "/") ||
		strings.Contains(c.Prefix, "//") {
		wrong("Prefix is %q; it must end in a slash and not begin with one", c.Prefix)
	}
	return errors.Join(errs...)
}

// Conn is one session with Consul, shared by any number of elections. It is safe for concurrent
// use.
type Conn struct {
	cfg           Config
	store         *store.Store
	log           *slog.Logger
	contact       *messages.State[election.Contact]
	polls         store.Polls        // renewed when a renewal has succeeded after a failed one
	sessionWanted chan struct{}      // cap 1: somebody waits for a session
	leftoversDue  chan struct{}      // cap 1: Consul answers, so the leftovers can be removed
	verifyNow     chan chan struct{} // ask Consul for the session now, then close the channel
	stop          context.CancelFunc
	work          sync.WaitGroup // renew

	mu     sync.Mutex
	wanted bool // somebody needs a session
	// liveSession is the session until it is known to have ended, also after Close.
	liveSession string
	watching    int               // elections that are taken part in
	leading     map[*backend]bool // took the leadership and did not give it up
	// why no session can be opened; empty: none was refused
	// why no session can be opened; empty: Consul has not refused one
	trouble   string
	leftovers []func(context.Context) error // what has yet to be removed; see leftovers.go
	// of the elections that somebody joins at the moment
	joinLocks map[string]*joinLock // by root of the election
}

// joinLock lets the candidates of one connection join an election one after the other. All of them
// change the same key below joins/.
type joinLock struct {
	turn  chan struct{} // cap 1: full while somebody joins
	users int
}

// lockJoin waits for the turn to join the election. done passes the turn on.
func (c *Conn) lockJoin(ctx context.Context, root string) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.joinLocks[root]
	if l == nil {
		l = &joinLock{turn: make(chan struct{}, 1)}
		c.joinLocks[root] = l
	}
	l.users++
	c.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	leave := func() {
		if l.users--; l.users == 0 {
			delete(c.joinLocks, root)
		}
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func() {
		<-l.turn
		c.mu.Lock()
		defer c.mu.Unlock()
		leave()
	}, nil
}

// Connect returns a connection at once; Consul need not be there yet. It opens a session when the
// first candidate joins: followers and operators need none. The error is election.ErrInvalid.
func Connect(cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s, err := store.New(store.Config{Client: cfg.Client, Logger: cfg.Logger,
		PollWait: min(2*cfg.TTL, time.Minute), Contained: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{
		cfg: cfg, store: s, log: cfg.Logger, contact: messages.NewState(election.Contact{}),
		sessionWanted: make(chan struct{}, 1), leftoversDue: make(chan struct{}, 1),
		verifyNow: make(chan chan struct{}),
		stop:      cancel, leading: map[*backend]bool{}, joinLocks: map[string]*joinLock{},
	}
	c.work.Go(func() { c.renew(ctx) })
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
	return newBackend(c, name), nil
}

// LeaderKey returns the key that the leader of an election holds, for guards of one's own
// transactions.
func (c *Conn) LeaderKey(name string) string { return keysOf(c.cfg.Prefix, name).leader() }

// Contact is the session and its lease.
func (c *Conn) Contact() messages.Reader[election.Contact] { return c.contact.Reader() }

// Close ends the session and with it all elections of this connection: those that are not over fail
// with election.ErrClosed. End them first: a leader whose duties have not ended leaves the session
// to expire. It takes at most about two seconds when Consul does not answer. It may be called
// twice.
func (c *Conn) Close() {
	c.stop()
	c.work.Wait()
}

// renew is the goroutine that keeps the session.
func (c *Conn) renew(ctx context.Context) {
	defer c.close()
	var cleaner sync.WaitGroup
	defer cleaner.Wait()
	cleaner.Go(func() { c.clean(ctx) })
	renewal := store.Renewal{
		Store: c.store, Every: c.cfg.Renew, Log: c.log,
		Session: store.SessionOptions{Name: c.cfg.Name, TTL: c.cfg.TTL, LockDelay: c.cfg.LockDelay},
	}
	defer renewal.Wait()
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	var asked chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.sessionWanted:
		case asked = <-c.verifyNow:
		case <-timer.C:
		}
		now := c.contact.Get()
		var err error
		if now.Session != "" || c.wantsSession() {
			err = c.keep(ctx, &renewal, now)
		}
		if asked != nil {
			close(asked)
			asked = nil
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if renewal.Failing() {
				c.polls.Renew()
			}
		case errors.Is(err, store.ErrSessionGone):
			c.log.Warn("session-lost", "session", now.Session, "why", err)
			c.forgetSession()
			c.contact.Set(election.Contact{Why: lost(now, time.Now())})
		case now.Session == "":
			c.noteTrouble(err)
		}
		held := c.contact.Get()
		due := renewal.Due(err, held.Lease)
		if err != nil || held.Session != "" {
			timer.Reset(time.Until(due))
		}
		if err == nil && held.Session != "" {
			c.cleanUp()
		}
	}
}

// keep opens or renews the session and publishes it.
func (c *Conn) keep(ctx context.Context, renewal *store.Renewal, now election.Contact) error {
	id, lease, err := renewal.Ask(ctx, now.Session)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.liveSession, c.trouble = id, ""
	c.mu.Unlock()
	now.Session, now.Lease = id, lease
	c.contact.Set(now)
	return nil
}

// noteTrouble records why no session can be opened.
func (c *Conn) noteTrouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err.Error()
}

// wantsSession tells whether anybody needs a session.
func (c *Conn) wantsSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// session returns the session, and waits for one if there is none.
func (c *Conn) session(ctx context.Context) (string, error) {
	if s := c.contact.Get(); s.Session != "" {
		return s.Session, nil
	}
	c.mu.Lock()
	c.wanted = true
	c.mu.Unlock()
	select {
	case c.sessionWanted <- struct{}{}:
	default:
	}
	wait, cancel := context.WithTimeout(ctx, store.DefaultCallTimeout)
	defer cancel()
	s, err := c.contact.Reader().Wait(wait, func(s election.Contact) bool {
		return s.Session != "" || s.Closed
	})
	switch {
	case s.Closed:
		return "", election.ErrClosed
	case err != nil:
		c.mu.Lock()
		why := c.trouble
		c.mu.Unlock()
		if why == "" {
			why = "Consul has not answered"
		}
		return "", fmt.Errorf("no session yet: %s", why)
	}
	return s.Session, nil
}

// verify asks Consul at once whether the session still stands, and waits a moment for the answer.
func (c *Conn) verify(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, time.Second/2)
	defer cancel()
	answer := make(chan struct{})
	select {
	case c.verifyNow <- answer:
	case <-wait.Done():
		return
	}
	select {
	case <-answer:
	case <-wait.Done():
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

// lost says how the session has ended that Consul no longer knows at the time now. Consul never
// expires a session before its TTL.
func lost(c election.Contact, now time.Time) string {
	how := fmt.Sprintf("expired: its ttl is %v", c.Lease.TTL)
	if now.Sub(c.Lease.Start) < c.Lease.TTL {
		how = "was ended before its time: an operator destroyed it, its node has gone, or Consul " +
			"has lost it"
	}
	return fmt.Sprintf("session %s %s; Consul last heard of it at %s", c.Session, how,
		c.Lease.Start.Format("15:04:05.000"))
}

// forgetSession drops what has gone with the session.
func (c *Conn) forgetSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liveSession, c.leftovers = "", nil
	clear(c.leading)
}

// sessionLives tells whether the keys of the session still have to be removed.
func (c *Conn) sessionLives(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return session != "" && c.liveSession == session
}

// setLeading records whether b has the leadership of its election.
func (c *Conn) setLeading(b *backend, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if yes {
		c.leading[b] = true
	} else {
		delete(c.leading, b)
	}
}

// close ends the session, unless one of its leaders has not released.
func (c *Conn) close() {
	now := c.contact.Get()
	c.contact.Set(election.Contact{Closed: true})
	if now.Session == "" {
		return
	}
	// A candidate that has resigned counts as a leader until its release is written.
	c.settle()
	c.mu.Lock()
	leading := len(c.leading)
	c.mu.Unlock()
	if leading > 0 && !mutations.Broken("closed-while-led") {
		c.log.Error("session-left-to-expire", "session", now.Session, "leading", leading)
		return
	}
	call, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := c.store.DestroySession(call, now.Session); err != nil {
		c.log.Warn("session-not-destroyed", "session", now.Session, "err", err, "then",
			"it expires by itself within twice its ttl")
		return
	}
	c.forgetSession()
}

// closePatience bounds each of the two waits of Close for Consul.
const closePatience = time.Second
