package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"github.com/coordd/coordd/messages"
	"golang.org/x/sync/semaphore"
)

// Defaults of [Config].
const (
	DefaultWait      = 5 * time.Second
	DefaultTimeout   = 30 * time.Second
	DefaultConnect   = 2 * time.Second
	DefaultIdle      = 5 * time.Minute
	DefaultInFlight  = 4096
	DefaultPerMember = 256
	DefaultIdleConns = 1024
	DefaultFanout    = 1024
)

// What is kept in memory of one request.
const (
	replayBytes    = 64 << 10  // of a request's body, to send it again
	headBytes      = 64 << 10  // of the head of an answer
	broadcastBytes = 1 << 20   // of a broadcast's body
	answerBytes    = 1 << 20   // of one member's answer to a broadcast
	answersBytes   = 64 << 20  // of all of them
	bodiesBytes    = 64 << 20  // of the bodies of broadcasts that are on their way
	gatheredBytes  = 256 << 20 // of the answers to all broadcasts under way
	readingBytes   = 128 << 20 // of those that clients are reading
	// what the body of a broadcast may have, or the answers to it that are being read, beside any
	// others
	smallBytes = 64 << 10
	// at one time, and half of all requests at the most; half of them may wait for one member
	broadcasts = 64
)

// slowestReader is how many bytes of the answers to a broadcast a client has to take in a second,
// beside the time that each piece has.
const slowestReader = 64 << 10

const idBytes = 8 // of a dispatcher's own id

// Locator tells where items are: a *routing.Router, as from actors.Coordinator.Router. Locate with
// a context that has ended asks nobody and waits for nothing: it answers with what is at hand, or
// with an error that matches the context's. If there is a method ConsulAddress() string, as a
// Router has, nothing is sent to that address.
type Locator interface {
	Locate(ctx context.Context, item string) (routing.Location, error)
	Await(ctx context.Context, item string) (routing.Location, error)
	Members(ctx context.Context) ([]routing.Member, error)
	Changed() *messages.Cursor[struct{}]
}

// Config says what is dispatched and within which limits. Zero values stand for the defaults named
// at each field.
type Config struct {
	// Locator is asked where the items are. Required.
	Locator Locator
	// Wait is how long a request may wait for a move to end, or for an owner that refuses
	// connections, before it is refused. Default: 5 s. Less than 0: it does not wait.
	Wait time.Duration
	// Timeout is how long the beginning of an answer may take once the request was sent, how long a
	// member may take nothing of a request's body before that, and a member's whole answer to a
	// broadcast. Default: 30 s.
	Timeout time.Duration
	// Connect is how long opening a connection may take. Default: 2 s.
	Connect time.Duration
	// Idle is how long a request or an upgraded connection may go on without a byte in either
	// direction. At least Timeout. Default: 5 min.
	Idle time.Duration
	// InFlight is the most requests under way at one time, beside a quarter as many that wait for a
	// move or for an owner. Default: 4,096.
	InFlight int
	// PerMember is the most requests under way to one member, those of broadcasts among them. When
	// all but an eighth of InFlight, and the places of broadcasts (another eighth, or 64 if that is
	// less), are under way, one more goes only to a member that has less than 8 beside broadcasts,
	// and when half of that eighth is under way to one that has none. Default: 256.
	PerMember int
	// Streams is the most upgraded connections and event streams at one time, StreamsPerMember
	// those to one member: they have places of their own and take none from requests. When all but
	// an eighth of Streams are open, one more goes only to a member that has less than 8, and half
	// of an eighth later to one that has none. Defaults: InFlight; 4 times PerMember, or Streams if
	// that is less.
	Streams, StreamsPerMember int
	// Fanout is the most requests of broadcasts under way at one time: one for each member of each
	// broadcast. Each member has its share of them, so that those that hang leave room for the
	// others: with more members than that they do not. Default: 1,024, or InFlight if that is less.
	Fanout int
	// Reach says where requests may be sent. Nil: to no loopback, link-local or metadata address,
	// as with the zero Reach. With any the Consul that the Locator asks is never sent to.
	Reach *Reach
	// Trusted are the networks of the proxies before this one, such as the front that speaks TLS.
	// What they say of the client in X-Forwarded-* and Forwarded is passed on, and the proxy's own
	// address added; from anybody else it is taken out. Default: none.
	Trusted []netip.Prefix
	// IdleConns is the most connections to members that are kept open for the next request.
	// Default: 1,024, or InFlight if that is less.
	IdleConns int
	// Logger. Default: slog.Default(). Nobody waits for its handler. Single requests are logged at
	// debug level only.
	Logger *slog.Logger
}

// ErrConfig is returned by [New] for a setting that cannot work; the text says which. It is the
// ErrConfig of packages actors and routing, too.
var ErrConfig = routing.ErrConfig

// ErrStopping is for the server that serves the dispatcher: requests whose context it cancels with
// this cause, as from a BaseContext of its own, are answered with 502, or with 503 when nobody has
// carried them out, instead of being cut off.
var ErrStopping = errors.New("the server stops")

func (c Config) withDefaults() Config {
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&c.Timeout, DefaultTimeout}, {&c.Connect, DefaultConnect}, {&c.Idle, DefaultIdle}} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	c.Idle = max(c.Idle, c.Timeout)
	c.InFlight = cmp.Or(c.InFlight, DefaultInFlight)
	c.PerMember = cmp.Or(c.PerMember, min(DefaultPerMember, c.InFlight))
	c.Streams = cmp.Or(c.Streams, c.InFlight)
	c.StreamsPerMember = cmp.Or(c.StreamsPerMember, min(4*c.PerMember, c.Streams))
	c.Fanout = cmp.Or(c.Fanout, min(DefaultFanout, c.InFlight))
	c.IdleConns = cmp.Or(c.IdleConns, min(DefaultIdleConns, c.InFlight))
	c.Reach = cmp.Or(c.Reach, &Reach{})
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
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"timeout", c.Timeout}, {"connect", c.Connect}, {"idle", c.Idle}} {
		if d.value < 0 {
			bad("%s %v: give a time above 0s", d.name, d.value)
		}
	}
	if c.InFlight < 0 {
		bad("in flight %d: give 1 or more", c.InFlight)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"idle connections", c.IdleConns}, {"streams", c.Streams}, {"fanout", c.Fanout}} {
		if n.value < 0 {
			bad("%s %d: give 1 or more", n.name, n.value)
		}
	}
	if d := c.withDefaults(); c.StreamsPerMember < 0 || d.StreamsPerMember > d.Streams {
		bad("streams per member %d: give 1 to %d, which is the limit for all", c.StreamsPerMember,
			d.Streams)
	}
	if d := c.withDefaults(); c.PerMember < 0 || d.PerMember > d.InFlight {
		bad("per member %d: give 1 to %d, which is the limit for all", c.PerMember, d.InFlight)
	}
	return errors.Join(errs...)
}

// Dispatcher is the handler. It is safe for concurrent use and starts nothing that outlives a
// request but idle connections.
type Dispatcher struct {
	cfg       Config
	id        string // tells its own requests when they come back
	log       *slog.Logger
	transport *http.Transport
	proxy     *httputil.ReverseProxy

	requests, streams        sharedPlaces
	waiting                  limit
	bodies, answers, reading limit // in bytes
	broadcasting             broadcastPlaces
	turns                    memberTurns // of the requests of broadcasts
	fanout                   *semaphore.Weighted
}

// New returns a dispatcher. Errors: [ErrConfig], all that is wrong at once.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	var id [idBytes]byte
	rand.Read(id[:])
	places := max(1, min(broadcasts, cfg.InFlight/2))
	d := &Dispatcher{
		cfg: cfg, id: hex.EncodeToString(id[:]), log: cfg.Logger,
		// A member that hangs holds up those broadcasts that ask it, and not all.
		requests:     newSharedPlaces(cfg.InFlight, cfg.PerMember, places),
		broadcasting: broadcastPlaces{max: places},
		// Those that wait take no place of those that do not.
		waiting: limit{max: int64(max(1, cfg.InFlight/4))},
		streams: newSharedPlaces(cfg.Streams, cfg.StreamsPerMember, 0),
		bodies:  limit{max: bodiesBytes}, answers: limit{max: gatheredBytes},
		reading: limit{max: readingBytes},
		turns:   newMemberTurns(cfg.Fanout),
		fanout:  semaphore.NewWeighted(int64(cfg.Fanout)),
	}
	dialer, consul := &net.Dialer{Timeout: cfg.Connect}, ""
	if asking, ok := cfg.Locator.(interface{ ConsulAddress() string }); ok {
		consul = asking.ConsulAddress()
	}
	d.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			d := *dialer
			d.ControlContext = cfg.Reach.control(address, consul)
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newIdleConn(conn, cfg.Idle, cfg.Timeout), nil
		},
		ResponseHeaderTimeout: cfg.Timeout, MaxResponseHeaderBytes: headBytes,
		ExpectContinueTimeout: time.Second,
		// before the connection's own limit, which would break a request that has just taken it
		IdleConnTimeout:     min(90*time.Second, cfg.Idle/2),
		MaxIdleConns:        cfg.IdleConns,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // what the client did not ask for is not added on the way
	}
	d.proxy = &httputil.ReverseProxy{
		Rewrite: d.rewrite, Transport: ownerTransport{d}, ModifyResponse: d.setAnswerHeaders,
		ErrorHandler:  d.failed,
		FlushInterval: -1, // an answer whose length is known may come slowly, too
		BufferPool:    newBuffers(), ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(),
			slog.LevelDebug),
	}
	return d, nil
}

// CloseIdleConnections closes those that no request uses: for the end, when no requests come any
// more.
func (d *Dispatcher) CloseIdleConnections() { d.transport.CloseIdleConnections() }
