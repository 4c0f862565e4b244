package onzk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

const (
	// closePatience is how long Close waits for leaders that stop, and for those who leave.
	closePatience = 2 * time.Second
	// clientPatience bounds how long Close waits for the client to end. It takes a second to close
	// its session, and longer if requests are under way.
	clientPatience = 10 * time.Second
)

// Conn is one connection and session, shared by any number of elections. It is safe for concurrent
// use.
type Conn struct {
	cfg    Config
	zk     *zk.Conn
	dialer *dialer
	log    *slog.Logger
	state  messages.Reader[election.Contact]
	crew   *backend.Crew

	ctx          context.Context
	stop         context.CancelFunc
	work         sync.WaitGroup // goroutines that end soon after ctx
	clientClosed chan struct{}  // closed when the client has ended
	closing      sync.Once
	// authenticated is closed when ZooKeeper has taken the Digest; nil: there is no Digest.
	authenticated chan struct{}
	// connections rises with each network connection, and a little later once more. Watched nodes
	// are read again then: the client may have told the server that it has seen all changes.
	connections *messages.State[int]
}

// Connect opens a connection and returns at once: ZooKeeper need not be there yet. A
// server whose name cannot be resolved is one that does not answer. The error is
// election.ErrInvalid.
func Connect(cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if len(cfg.Servers) == 0 {
		return nil, fmt.Errorf("%w: Servers is empty; name one host:port at least",
			election.ErrInvalid)
	}
	d := &dialer{base: cfg.Dial, state: messages.NewState(election.Contact{})}
	if d.base == nil {
		d.base = net.DialTimeout
	}
	if cfg.TLS != nil {
		d.base = tlsDialer(d.base, cfg.TLS)
	}
	zc, events, err := zk.Connect(cfg.Servers, cfg.SessionTimeout, zk.WithDialer(d.Dial),
		zk.WithHostProvider(&namedServers{}), zk.WithLogger(logger{cfg.Logger}))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	c := &Conn{cfg: cfg, zk: zc, dialer: d, log: cfg.Logger, state: d.state.Reader(),
		crew: backend.NewCrew(cfg.Logger), clientClosed: make(chan struct{}),
		connections: messages.NewState(0)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if cfg.Digest != "" {
		c.authenticated = make(chan struct{})
		c.spawn("authentication", c.authenticate)
	}
	c.spawn("the loop that renews the lease", c.renewLease)
	// It ends with the client, which Close ends.
	contained.Go(c.log, "the loop that reads events", func() error {
		for range events { // they say nothing new
			continue
		}
		close(c.clientClosed)
		c.dialer.close(nil)
		c.stop()
		c.crew.Stop() // nothing can be removed any more
		return nil
	}, c.broke)
	return c, nil
}

// spawn runs f in a goroutine that Close waits for. After a panic the connection counts as closed,
// because nobody does that goroutine's work any more.
func (c *Conn) spawn(what string, f func()) {
	c.work.Go(func() {
		contained.Run(c.log, what, func() error {
			f()
			return nil
		}, c.broke)
	})
}

func (c *Conn) broke(err error) {
	if err != nil {
		c.dialer.close(err)
	}
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
	return backend.New(newNodeStore(c, name), c.crew, backend.Settings{
		Name: name, HoldBack: c.cfg.HoldBack, Logger: c.log, LockDelay: c.lockDelay}), nil
}

// lockDelay is that of this connection's leaders.
func (c *Conn) lockDelay() time.Duration {
	if c.cfg.LockDelay == 0 {
		return c.timeout()
	}
	return max(c.cfg.LockDelay, 0)
}

// timeout returns the session's timeout, or the one asked for while there is no session.
func (c *Conn) timeout() time.Duration {
	if ttl := c.state.Get().Lease.TTL; ttl > 0 {
		return ttl
	}
	return c.cfg.SessionTimeout
}

// Close ends all elections of this connection for their participants here, with election.ErrClosed.
// Leaders should resign before, so that others may lead at once. Close waits for two seconds at
// most until leaders have stopped and candidates have left. Then it ends the session; but a leader
// that has not stopped leaves it to expire. It may be called more than once.
func (c *Conn) Close() {
	c.closing.Do(func() {
		c.dialer.close(nil)
		soon, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		c.crew.Settle(soon)
		c.stop()
		if leading := c.crew.Leading(); leading > 0 {
			c.log.Error("session-left-to-expire", "leading", leading)
			c.dialer.bar() // the client cannot end it, and makes no other connection
		}
		c.zk.Close()
		c.dialer.bar()
		c.crew.Stop()
		patience := time.NewTimer(clientPatience)
		defer patience.Stop()
		select {
		case <-c.clientClosed:
		case <-patience.C:
			c.log.Error("zookeeper-client-hangs", "do",
				"nothing: the session ends by itself; its goroutines stay")
		}
	})
	c.work.Wait()
}

// renewLease commits a transaction that changes nothing, six times in a session's timeout, as long
// as there is a session.
func (c *Conn) renewLease() {
	changes := c.state.Subscribe()
	var last *observed
	var again time.Time // when watched nodes are read once more; zero: they were
	for c.ctx.Err() == nil {
		conn := c.dialer.current()
		if conn == nil {
			if _, err := changes.Next(c.ctx); err != nil {
				return
			}
			continue
		}
		now := time.Now()
		switch pause := c.timeout() / 3; {
		case conn != last:
			last, again = conn, now.Add(pause)
			c.connections.Set(c.connections.Get() + 1)
		case !again.IsZero() && now.After(again):
			again = time.Time{}
			c.connections.Set(c.connections.Get() + 1)
		}
		pause := c.timeout() / 6
		err := c.awaitCredentials(c.ctx)
		if err == nil {
			err = c.request(c.ctx, c.commitNothing)
		}
		if err == nil {
			c.dialer.proved(conn, contact{sent: now, answered: time.Now()})
		} else {
			pause /= 4
		}
		sleep(c.ctx, pause)
	}
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

// authenticate sends the Digest until ZooKeeper takes it. The client sends it by itself on each
// later connection.
func (c *Conn) authenticate() {
	for c.ctx.Err() == nil {
		err := c.request(c.ctx, func() error {
			return c.zk.AddAuth("digest", []byte(c.cfg.Digest))
		})
		if err == nil {
			close(c.authenticated)
			return
		}
		if errors.Is(err, zk.ErrAuthFailed) {
			c.log.Warn("zookeeper-refuses-credentials", "err", err)
			sleep(c.ctx, 5*time.Second)
		}
		sleep(c.ctx, 100*time.Millisecond)
	}
}

// errNoCredentials is returned while ZooKeeper has not taken the Digest.
var errNoCredentials = errors.New("no server has taken the credentials yet")

// awaitCredentials waits a second until ZooKeeper has taken the Digest, if there is one.
func (c *Conn) awaitCredentials(ctx context.Context) error {
	if c.authenticated == nil {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-c.authenticated:
		return nil
	case <-soon.Done():
		return errNoCredentials
	}
}

// request runs f, which cannot be interrupted: the client's requests take no context. They wait for
// a connection, or for an answer until the connection fails. If ctx ends first, f goes on in the
// background and its error is dropped.
func (c *Conn) request(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	contained.Go(c.log, "a request", f, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// logger logs what the client says at debug level. The status messages say what matters of it.
type logger struct{ log *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	l.log.Debug("zookeeper-client", "message", fmt.Sprintf(format, args...))
}
