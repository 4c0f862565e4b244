package onzk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// leaveTimeout bounds how long Close waits for pending leaves.
const leaveTimeout = 2 * time.Second

// closeTimeout bounds how long Close waits for the client to end. The client takes a second to
// close its session, and longer if requests are under way.
const closeTimeout = 10 * time.Second

// Conn is one connection and session, shared by any number of elections. It is safe for concurrent
// use.
type Conn struct {
	cfg    Config
	zk     *zk.Conn
	dialer *Dialer
	own    bool // Connect made the connection
	log    *slog.Logger
	state  messages.Reader[election.Contact]

	ctx          context.Context
	stop         context.CancelFunc
	leaving      context.Context // until it ends, leaves are tried again; see goOn
	stopLeaving  context.CancelFunc
	work         sync.WaitGroup // goroutines that end soon after ctx
	clientClosed chan struct{}  // closed when the client has ended: its event channel is closed
	abandoned    chan struct{}  // closed when Close has stopped waiting for the client

	// authenticated is closed when ZooKeeper has taken the Digest; nil: there is no Digest.
	authenticated chan struct{}
	notTaken      error                // why ZooKeeper has not taken it yet; under mu
	saidRefused   atomic.Bool          // the log says that credentials are refused
	pendingLeaves *messages.State[int] // how many leaves are tried again; changed under mu
	leaders       *messages.State[int] // how many candidates lead here; changed under mu
	// readings counts the readings, so that each has a number.
	readings      atomic.Uint64
	mu            sync.Mutex
	sharedWatches map[string]*sharedWatch
	denials       map[denialOf]denial // that were not ended by a success
}

// Connect opens a connection of its own and returns at once: ZooKeeper need not be there yet. A
// server whose name cannot be resolved is one that does not answer; the names are resolved anew for
// each connection. The error is election.ErrInvalid.
func Connect(cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if len(cfg.Servers) == 0 {
		return nil, fmt.Errorf("%w: Servers is empty; name one host:port at least",
			election.ErrInvalid)
	}
	d := &Dialer{Base: cfg.Dial}
	resolver := newResolvingDialer()
	if d.Base == nil {
		d.Base = resolver.Dial
	}
	if cfg.TLS != nil {
		d.Base = tlsDialer(d.Base, cfg.TLS)
	}
	servers := cfg.Servers
	if len(servers) == 1 {
		// The client pauses for a second when its list of servers comes round to the last one that
		// it was connected to. With one server it would pause before each reconnection.
		servers = []string{servers[0], servers[0]}
	}
	zc, events, err := zk.Connect(servers, cfg.SessionTimeout, zk.WithDialer(d.Dial),
		zk.WithHostProvider(&namedServers{}), zk.WithLogger(logger{cfg.Logger}))
	if err != nil {
		resolver.end()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	c := newConn(zc, events, d, cfg, true)
	context.AfterFunc(c.ctx, resolver.end)
	return c, nil
}

// New uses a connection that the caller has made with the dialer, and goes on owning. The events
// are those that zk.Connect returned; they are read until they end, which says that the connection
// was closed. They may be nil if the caller reads them: then the caller closes the Conn when
// closing the connection. One Conn is enough for one zk.Conn: its dialer belongs to it. The error
// is election.ErrInvalid.
func New(zc *zk.Conn, events <-chan zk.Event, d *Dialer, cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch {
	case zc == nil || d == nil:
		return nil,
			fmt.Errorf("%w: no connection or no dialer; pass what zk.Connect returned, and the "+
				"Dialer it was given",
				election.ErrInvalid)
	case zc.State() == zk.StateHasSession && d.contact().Get().Session == "":
		return nil,
			fmt.Errorf("%w: the connection was made without the dialer; pass "+
				"zk.WithDialer(dialer.Dial) to zk.Connect",
				election.ErrInvalid)
	}
	return newConn(zc, events, d, cfg.withDefaults(), false), nil
}

func newConn(zc *zk.Conn, events <-chan zk.Event, d *Dialer, cfg Config, own bool) *Conn {
	ctx, stop := context.WithCancel(context.Background())
	c := &Conn{cfg: cfg, zk: zc, dialer: d, own: own, log: cfg.Logger, state: d.contact().Reader(),
		ctx: ctx, stop: stop,
		clientClosed: make(chan struct{}), abandoned: make(chan struct{}),
		pendingLeaves: messages.NewState(0), leaders: messages.NewState(0),
		sharedWatches: map[string]*sharedWatch{}, denials: map[denialOf]denial{}}
	c.leaving, c.stopLeaving = context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() {
		switch {
		case own:
			c.stopLeaving()
		case events == nil: // else drain hears of the client's end
			contained.Go(c.log, "the wait for what leaves", plain(c.awaitLeaves), c.broke)
		}
	})
	d.onRefused(c.logRefused)
	if own && cfg.Digest != "" {
		c.authenticated = make(chan struct{})
		c.notTaken = errors.New("no server has answered")
		c.spawn("authentication", func() { c.authenticate([]byte(cfg.Digest)) })
	}
	c.spawn("the loop that renews the lease", c.renewLease)
	const reader = "the loop that reads events"
	switch drain := func() { c.drain(events) }; {
	case events == nil:
	case own:
		c.work.Go(c.guarded(reader, drain))
	default:
		contained.Go(c.log, reader, plain(drain), c.broke)
	}
	return c
}

// ZK returns the connection, for the caller's own work.
func (c *Conn) ZK() *zk.Conn { return c.zk }

// Contact is the state of the session.
func (c *Conn) Contact() messages.Reader[election.Contact] { return c.state }

// Open returns the way to one election. The error is election.ErrInvalid.
func (c *Conn) Open(name string) (election.Backend, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return newBackend(c, name), nil
}

func checkName(name string) error {
	if err := election.CheckName("Election", name); err != nil {
		return err
	}
	if what := unfit(name); what != "" {
		return fmt.Errorf("Election %q: %w: it holds %s, which ZooKeeper takes in no node's "+
			"name; use another name",
			name, election.ErrInvalid, what)
	}
	return nil
}

// Close ends all elections of this connection for their participants here, with election.ErrClosed.
// Leaders should resign before, so that others may lead at once. Close waits for two seconds at
// most until those that have resigned have written that. If Connect made the connection, Close ends
// the session too; but a leader whose duties have not ended two seconds later leaves it to expire.
// A caller's own connection goes on, and what its candidates hold is removed as they end. It may be
// called more than once.
func (c *Conn) Close() {
	none := func(n int) bool { return n == 0 }
	wait := func(cell *messages.State[int]) error {
		soon, cancel := context.WithTimeout(c.ctx, leaveTimeout)
		defer cancel()
		_, err := cell.Reader().Wait(soon, none)
		return err
	}
	_ = wait(c.pendingLeaves)
	c.dialer.close(c.own)
	if c.own && wait(c.leaders) != nil {
		c.log.Error("session-left-to-expire", "leading", c.leaders.Get())
		c.dialer.closeNewest() // the client cannot end it, and makes no other connection
	}
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	if c.own {
		c.zk.Close()
		c.dialer.closeNewest()
		select {
		case <-c.clientClosed:
		case <-time.After(closeTimeout):
			c.log.Error("zookeeper-client-hangs", "do",
				"nothing: the session ends by itself; its goroutines stay")
			close(c.abandoned)
		}
	}
	c.work.Wait()
}

// drain reads the client's events until the client ends, or until Close has stopped waiting for
// that. The events themselves say nothing new, and the client drops those that nobody reads.
func (c *Conn) drain(events <-chan zk.Event) {
	for {
		select {
		case _, ok := <-events:
			if !ok {
				close(c.clientClosed)
				c.dialer.close(c.own)
				c.mu.Lock()
				c.stop()
				c.mu.Unlock()
				c.stopLeaving()
				return
			}
		case <-c.abandoned:
			return
		}
	}
}

// renewLease commits a transaction that changes nothing, six times in a session's timeout, as long
// as there is a session.
func (c *Conn) renewLease() {
	c.dialer.setProving(true)
	defer c.dialer.setProving(false)
	changes := c.state.Subscribe()
	var last *handshakeConn
	for c.ctx.Err() == nil {
		session, conn := c.dialer.current()
		if session == 0 {
			if _, err := changes.Next(c.ctx); err != nil {
				return
			}
			continue
		}
		if conn != last {
			last = conn
			c.rereadAfterReconnect()
		}
		pause := c.state.Get().Lease.TTL / 6
		sent := time.Now()
		if err := c.call(c.ctx, c.commitNothing); err == nil {
			c.dialer.proved(conn, contact{sent: sent, answered: time.Now()})
			c.saidRefused.Store(false)
		} else {
			pause /= 4
		}
		c.sleep(c.ctx, pause)
	}
}

// rereadAfterReconnect reads every followed node on a new connection, at once and a little later.
// So nothing depends on how the client and the server restore watches.
func (c *Conn) rereadAfterReconnect() {
	c.refreshAll()
	c.spawn("a second reading after a reconnection", func() {
		c.sleep(c.ctx, c.timeout()/3)
		c.refreshAll()
	})
}

// commitNothing is a transaction that a majority of the ensemble commits and that changes nothing.
// One that is denied, where / may not be read, is committed as well: see pRequest, which makes an
// ErrorTxn of it, in ZooKeeper's PrepRequestProcessor.
func (c *Conn) commitNothing() error {
	_, err := c.zk.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	return err
}

// awaitLeaves ends c.leaving when nothing of this connection's is left in the session, or the
// caller has closed the client. A client that goes on is disconnected for a moment only: it
// connects again at once. What leaves is counted as a leader or a pending leave but for moments,
// and for the session's timeout of a second look for a late join: so two looks are made, that far
// apart.
func (c *Conn) awaitLeaves() {
	for done := 0; done < 2; done++ {
		c.sleep(c.leaving, c.timeout())
		left := c.pendingLeaves.Get() > 0 || c.leaders.Get() > 0
		if left && c.zk.State() != zk.StateDisconnected {
			done = -1
		}
	}
	c.stopLeaving()
}

// spawn runs f in a goroutine unless the connection is closed. Close waits for it.
func (c *Conn) spawn(what string, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spawnLocked(what, f)
}

func (c *Conn) spawnLocked(what string, f func()) {
	if c.ctx.Err() == nil {
		c.work.Go(c.guarded(what, f))
	}
}

// guarded returns f as the body of a goroutine that reports a panic to broke.
func (c *Conn) guarded(what string, f func()) func() {
	return func() { contained.Run(c.log, what, plain(f), c.broke) }
}

// plain is f as a function that never fails.
func plain(f func()) func() error {
	return func() error {
		f()
		return nil
	}
}

// broke is told how a goroutine of the connection ended. After a panic the connection counts as
// closed, because nobody does that goroutine's work for the elections any more. The elections end
// and remove their records. The caller still has to close the session.
func (c *Conn) broke(err error) {
	if err != nil {
		c.dialer.broke(err)
	}
}

// goOn runs f in a goroutine; f returns when c.leaving ends. The session of a caller's own
// connection outlives Close, and so do the nodes that are to be removed. How long is not known: a
// ZooKeeper that comes back after an outage counts all timeouts anew. So c.leaving lasts until they
// are removed, or the caller's client has ended.
func (c *Conn) goOn(what string, f func()) {
	if c.own {
		c.spawn(what, f)
		return
	}
	contained.Go(c.log, what, plain(f), c.broke)
}

// call runs f, which cannot be interrupted: the client's requests take no context. They wait for a
// connection, or for an answer until the connection fails. If ctx ends first, f goes on in the
// background and its error is dropped.
func (c *Conn) call(ctx context.Context, f func() error) error {
	if err := c.awaitCredentials(ctx); err != nil {
		return err
	}
	return c.callAnyway(ctx, f)
}

// credentialsPatience bounds a wait for the credentials to be taken. Without a bound a candidate
// could not leave while no server answers.
const credentialsPatience = time.Second

// errNoCredentials is returned while ZooKeeper has not taken the Digest.
var errNoCredentials = errors.New("ZooKeeper has not taken the credentials yet")

// awaitCredentials waits until ZooKeeper has taken the Digest, if there is one.
func (c *Conn) awaitCredentials(ctx context.Context) error {
	if c.authenticated == nil {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, credentialsPatience)
	defer cancel()
	select {
	case <-c.authenticated:
		return nil
	case <-soon.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%w: %w", errNoCredentials, c.notTaken)
}

// mostRefusedPause bounds the pause after credentials that were refused.
const mostRefusedPause = 5 * time.Second

// authenticate sends the Digest until ZooKeeper takes it. The client sends it by itself on each
// later connection.
func (c *Conn) authenticate(digest []byte) {
	refused := risingPause(mostRefusedPause)
	for c.ctx.Err() == nil {
		err := c.callAnyway(c.ctx, func() error { return c.zk.AddAuth("digest", digest) })
		if err == nil {
			close(c.authenticated)
			return
		}
		c.mu.Lock()
		c.notTaken = err
		c.mu.Unlock()
		pause := 100 * time.Millisecond
		if errors.Is(err, zk.ErrAuthFailed) {
			pause = refused.NextBackOff()
		}
		c.sleep(c.ctx, pause)
	}
}

// logRefused logs that a server refuses the credentials, once until ZooKeeper has answered a
// request: it lasts as a rule.
func (c *Conn) logRefused() {
	if !c.saidRefused.Swap(true) {
		c.log.Warn("zookeeper-refuses-credentials", "err", zk.ErrAuthFailed)
	}
}

func (c *Conn) callAnyway(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	contained.Go(c.log, "a request", f, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whileOpen returns a context that ends with ctx, and when the connection is closed.
func (c *Conn) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// orClosed is why an order under whileOpen has failed with err.
func (c *Conn) orClosed(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return election.ErrClosed
	}
	return err
}

// setLeading records whether b has the leadership of its election. If b takes it, what was denied
// in an earlier leadership counts no more.
func (c *Conn) setLeading(b *backend, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if yes {
		delete(c.denials, denialOf{b, toLeave})
	}
	switch {
	case b.leads == yes:
		return
	case yes:
		c.leaders.Set(c.leaders.Get() + 1)
	default:
		c.leaders.Set(c.leaders.Get() - 1)
	}
	b.leads = yes
}

// countPendingLeave adds n to the number of leaves that are tried again.
func (c *Conn) countPendingLeave(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pendingLeaves.Set(c.pendingLeaves.Get() + n)
}

func (c *Conn) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// timeout returns the session's timeout, or the one asked for while there is no session.
func (c *Conn) timeout() time.Duration {
	if ttl := c.state.Get().Lease.TTL; ttl > 0 {
		return ttl
	}
	return c.cfg.SessionTimeout
}

// logger logs what the client says at debug level. The status messages say what matters of it.
type logger struct{ log *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	l.log.Debug("zookeeper-client", "message", fmt.Sprintf(format, args...))
}
