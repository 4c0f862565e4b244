package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coordd/coordd/internal/reread"
	"github.com/hashicorp/consul/api"
)

// ErrTooManyConns is returned, along with [ErrUnreachable], when Consul takes no more connections
// from this host's address (limits.http_max_conns_per_client: 200 by default, which all processes
// of the host share). It passes when others close theirs.
var ErrTooManyConns = errors.New("too many connections from this address")

// NewClient is api.NewClient for a configuration as from api.DefaultConfig, whose client
// understands when Consul refuses a connection.
//
// Consul says 429 as soon as such a connection is opened, before it was asked anything. To net/http
// that is an "unsolicited response", which it logs on standard error by itself and then calls a
// server that has closed an idle connection.
//
// With this client the deadlines of calls grow with what arrives; with another one they are fixed.
//
// It speaks HTTP/1.1 only. Idle connections are closed after 5 s. A call that has timed out closes
// its connection and those that are idle: all may have died in silence, and the next call would wait
// on one of them.
//
// A user:password@ in the address, see [SplitAddress], is used for HTTP's basic authentication. A
// slash at the end of a URL is none of the paths that are asked for.
//
// Files that it names are read again when they change: that of the token, and those of certificates
// for new connections. A host's own Transport with a TLSClientConfig stays as it is.
//
// What [CheckSwitches] refuses is an error: the library fills in from the variables what cfg leaves
// out.
func NewClient(cfg *api.Config) (*api.Client, error) {
	if err := CheckSwitches(); err != nil {
		return nil, err
	}
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	own := *cfg
	cfg = &own
	address, auth := SplitAddress(cfg.Address)
	if address = withoutSlash(address); address != cfg.Address {
		cfg.Address = address
		if cfg.HttpAuth == nil {
			cfg.HttpAuth = auth
		}
	}
	if cfg.HttpClient == nil {
		if cfg.Transport == nil {
			cfg.Transport = api.DefaultConfig().Transport
		}
		heed(cfg.Transport)
		oneByOne(cfg.Transport)
		cfg.Transport.IdleConnTimeout = idleFor
		if t, err := renewedTLS(cfg); err != nil {
			return nil, err
		} else if t != nil {
			cfg.HttpClient = &http.Client{Transport: t}
		}
	}
	return pacedClient(cfg)
}

// ClientOr returns client, or one made from the CONSUL_HTTP_* variables in place of nil.
func ClientOr(client *api.Client) (*api.Client, error) {
	if client != nil {
		return client, nil
	}
	client, err := NewClient(api.DefaultConfig())
	if err != nil {
		return nil, fmt.Errorf("the CONSUL_HTTP_* variables: %w", err)
	}
	return client, nil
}

// CheckSwitches refuses what can never work in Consul's variables: control characters, which no
// request can hold, and a CONSUL_HTTP_SSL or CONSUL_HTTP_SSL_VERIFY that is neither true nor false.
// The library takes that for false: TLS would be left out, or Consul's certificate not looked at.
func CheckSwitches() error {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case value == "" || !strings.HasPrefix(name, "CONSUL_"):
		case strings.ContainsFunc(value, unicode.IsControl):
			return fmt.Errorf("%s holds a line break or another control character: set it anew",
				name)
		case name == api.HTTPSSLEnvName || name == api.HTTPSSLVerifyEnvName:
			if _, err := strconv.ParseBool(value); err != nil {
				return fmt.Errorf("%s is %q: give true or false", name, value)
			}
		}
	}
	return nil
}

// checkConfig refuses what can never work in a configuration.
func checkConfig(cfg *api.Config) error {
	if cfg.Token != "" && !reread.IsToken(cfg.Token) {
		return errors.New("CONSUL_HTTP_TOKEN is no token: give one line of ASCII without spaces")
	}
	for _, x := range [][2]string{{api.HTTPNamespaceEnvName, cfg.Namespace},
		{api.HTTPPartitionEnvName, cfg.Partition}, {"the datacenter", cfg.Datacenter},
		{api.HTTPTLSServerName, cfg.TLSConfig.Address}} {
		if strings.ContainsFunc(x[1], func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("/\\\"'?#&%", r)
		}) {
			return fmt.Errorf("%s is %q: give a name of letters, digits and -", x[0], x[1])
		}
	}
	return nil
}

// oneByOne gives each request that is under way a connection of its own, over TLS too. HTTP/2 would
// send all of them over one: when that one dies in silence, the system says so after a quarter of
// an hour, and until then each next request joins it.
func oneByOne(t *http.Transport) {
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
}

// idleFor is how long an idle connection is kept: longer than from one renewal to the next, and no
// longer. Consul takes 200 connections from one address, which all processes of a host share.
const idleFor = 5 * time.Second

func heed(t *http.Transport) {
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &greeted{Conn: conn}, nil
	}
}

// greeted is a connection on which the server may speak first, to refuse it.
type greeted struct {
	net.Conn
	asked, refused atomic.Bool
}

var errGreeting = fmt.Errorf("429: %w", ErrTooManyConns)

func (g *greeted) Write(p []byte) (int, error) {
	g.asked.Store(true)
	n, err := g.Conn.Write(p)
	if err != nil && g.refused.Load() { // the reader has closed it
		return n, errGreeting
	}
	return n, err
}

func (g *greeted) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 && !g.asked.Load() && bytes.HasPrefix(p[:n], []byte("HTTP/1.1 429 ")) {
		g.refused.Store(true)
		return 0, errGreeting
	}
	return n, err
}
