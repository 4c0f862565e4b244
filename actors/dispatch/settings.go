package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/asynclog"
)

// Defaults of [Config].
const (
	DefaultWait      = 5 * time.Second
	DefaultTimeout   = 30 * time.Second
	DefaultIdle      = 5 * time.Minute
	DefaultInFlight  = 4096
	DefaultPerMember = 256
)

const (
	connectTime    = 3 * time.Second
	headBytes      = 64 << 10 // of the head of an answer
	broadcastBytes = 1 << 20  // of a broadcast's body
	answerBytes    = 1 << 20  // of one member's answer to a broadcast
	answersBytes   = 16 << 20 // of all of them
	mostBroadcasts = 64       // at one time, and half of Config.InFlight at the most

	// IdleConns is how many connections to members are kept open for the next request.
	IdleConns = 1024
)

// Locator tells where items are: a *routing.Router, as from actors.Coordinator.Router. Locate with
// a context that has ended asks nobody and waits for nothing: if no answer is at hand, its error is
// routing.Retriable. If there is a method ConsulAddress() string, as a Router has, nothing is sent
// to the port in it: see [Config].Networks.
type Locator interface {
	Locate(ctx context.Context, item string) (routing.Location, error)
	Await(ctx context.Context, item string) (routing.Location, error)
	Members(ctx context.Context) ([]routing.Member, error)
}

// Config says what is dispatched and within which limits. Zero values stand for the defaults named
// at each field.
type Config struct {
	// Locator is asked where the items are. Required.
	Locator Locator
	// Wait is how long a request may wait for a move to end, or for an owner that refuses
	// connections, before it is refused. Default: 5 s. Less than 0: it does not wait.
	Wait time.Duration
	// Timeout is how long the beginning of an answer may take once the request was sent, and a
	// member's whole answer to a broadcast. Default: 30 s.
	Timeout time.Duration
	// Idle is how long a connection to a member may go on without a byte in either direction. At
	// least Timeout. Default: 5 min.
	Idle time.Duration
	// InFlight is the most requests under way at one time; a quarter of them may wait for a move.
	// Upgraded connections and event streams are requests, too, and so is each request of a
	// broadcast to a member. Default: 4,096.
	InFlight int
	// PerMember is the most requests under way to one member. Default: 256, or InFlight if that is
	// less.
	PerMember int
	// Networks are those that requests may be sent to. Default: [DefaultNetworks]. In none of them
	// is the metadata of clouds, 169.254.169.254 and fd00:ec2::254, nor the port at which the
	// Locator asks Consul, on any host. Ports 80 and 443 are exempt from this: services have them,
	// too.
	Networks []netip.Prefix
	// Dial connects to a member. Default: TCP, to Networks alone. A Dial of your own decides itself
	// which addresses it connects to; it is for tests, such as actorstest.Cluster.Dial.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Trusted are the networks of the proxies before this one, such as the front that speaks TLS.
	// What they say of the client in X-Forwarded-* and Forwarded is passed on, and the proxy's own
	// address added; from anybody else it is taken out. Default: none.
	Trusted []netip.Prefix
	// Logger. Default: slog.Default(). Nobody waits for its handler. Single requests are logged at
	// debug level only.
	Logger *slog.Logger
}

// ErrConfig is returned by [New] for a setting that cannot work; the text says which. It is the
// ErrConfig of packages actors and routing, too.
var ErrConfig = routing.ErrConfig

func (c Config) withDefaults() Config {
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Idle = max(cmp.Or(c.Idle, DefaultIdle), c.Timeout)
	c.InFlight = cmp.Or(c.InFlight, DefaultInFlight)
	c.PerMember = cmp.Or(c.PerMember, min(DefaultPerMember, c.InFlight))
	if c.Networks == nil {
		c.Networks = DefaultNetworks()
	}
	c.Logger = asynclog.Wrap(c.Logger)
	return c
}

// Validate tells what is wrong with the settings, all of it; nil when nothing is.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	if c.Locator == nil {
		bad("Locator is nil: give a router")
	}
	if c.Timeout < 0 {
		bad("timeout %v: give a time above 0s", c.Timeout)
	}
	if c.Idle < 0 {
		bad("idle %v: give a time above 0s", c.Idle)
	}
	if c.InFlight < 0 {
		bad("in flight %d: give 1 or more", c.InFlight)
	}
	if d := c.withDefaults(); c.PerMember < 0 || d.PerMember > d.InFlight {
		bad("per member %d: give 1 to %d, which is the limit for all", c.PerMember, d.InFlight)
	}
	return errors.Join(errs...)
}

// Dispatcher is the handler. It is safe for concurrent use and starts nothing that outlives a
// request but idle connections.
type Dispatcher struct {
	cfg          Config
	log          *slog.Logger
	transport    *http.Transport
	proxy        *httputil.ReverseProxy
	places       places
	broadcasting chan struct{}
}

// New returns a dispatcher. Errors: [ErrConfig], all that is wrong at once.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d := &Dispatcher{
		cfg: cfg, log: cfg.Logger,
		places:       newPlaces(cfg.InFlight, cfg.PerMember),
		broadcasting: make(chan struct{}, max(1, min(mostBroadcasts, cfg.InFlight/2))),
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTime, Control: reachOf(cfg).control}).DialContext
	}
	d.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &idleConn{conn, cfg.Idle}, nil
		},
		ResponseHeaderTimeout: cfg.Timeout, MaxResponseHeaderBytes: headBytes,
		ExpectContinueTimeout: time.Second,
		// before the connection's own limit, which would break a request that has just taken it
		IdleConnTimeout:     min(90*time.Second, cfg.Idle/2),
		MaxIdleConns:        min(IdleConns, cfg.InFlight),
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // what the client did not ask for is not added on the way
	}
	d.proxy = &httputil.ReverseProxy{
		Rewrite: d.rewrite, Transport: toMember{d}, ModifyResponse: d.setAnswerHeaders,
		ErrorHandler:  d.failed,
		FlushInterval: -1, // an answer whose length is known may come slowly, too
		BufferPool:    newBuffers(),
		ErrorLog:      slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return d, nil
}

// CloseIdleConnections closes those that no request uses: for the end, when no requests come any
// more.
func (d *Dispatcher) CloseIdleConnections() { d.transport.CloseIdleConnections() }
