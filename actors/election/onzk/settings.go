package onzk

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/backend"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/words"
	"github.com/go-zookeeper/zk"
)

// Defaults of Config.
const (
	DefaultSessionTimeout = 10 * time.Second
	DefaultHoldBack       = 5 * time.Second
	DefaultRoot           = "/coordd/election"
)

// MaxLockDelay bounds Config.LockDelay.
const MaxLockDelay = backend.MaxLockDelay

// MaxSessionTimeout bounds Config.SessionTimeout, as Consul bounds a session's TTL.
const MaxSessionTimeout = 24 * time.Hour

// Config is how to use ZooKeeper.
type Config struct {
	// Servers are host:port; the port may be left out if it is 2181. Required.
	Servers []string
	// SessionTimeout is what to ask for; ZooKeeper grants what lies in its own bounds (2 to 20
	// ticks, so 4 s to 40 s by default). Default 10 s, at most MaxSessionTimeout.
	SessionTimeout time.Duration
	// Dial connects to a server, as Servers names it, and resolves that name. By default names are
	// resolved for each connection.
	Dial zk.Dialer
	// TLS says for each connection how to speak TLS with the servers (their secureClientPort); nil:
	// not at all. Without a ServerName each server is to have a certificate of the host's name, or
	// address, that Servers says.
	TLS func() *tls.Config
	// Digest is "user:password" of ZooKeeper's scheme of that name; empty: nobody in particular.
	// All nodes that are made belong to that user then, and nobody else can read or change them,
	// unless ACL says otherwise. So does the Root, which who comes first makes: another user needs
	// another one. It is sent as it is: use TLS where others listen.
	Digest string

	// Root is the node below which elections are. Default /coordd/election.
	Root string
	// ACL of all nodes that are made. Default: with a Digest that user may do anything, and nobody
	// else; else the world may.
	ACL []zk.ACL
	// LockDelay is how long the others wait when a leader of this connection went without giving
	// the leadership up. ZooKeeper has no such thing; the leader leaves it behind with its name. It
	// is for a session that somebody ends early, with its password or by JMX: its leader may not
	// hear of that for as long as its lease runs. Default: the session's timeout as granted, which
	// covers every such case. Who knows that nobody does that may set a shorter one, or a negative
	// value for none: a session that expires by itself needs none, and the take-over after a crash
	// is that much quicker. At most MaxLockDelay.
	LockDelay time.Duration
	// HoldBack is how long others wait for the candidate of a hand-over that this connection
	// orders, once the leadership is free and a lost leader's lock-delay is over. Default 5 s, at
	// most election.MaxHoldBack.
	HoldBack time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.HoldBack = cmp.Or(c.HoldBack, DefaultHoldBack)
	c.Root = cmp.Or(c.Root, DefaultRoot)
	if user, password, ok := strings.Cut(c.Digest, ":"); len(c.ACL) == 0 && ok {
		c.ACL = zk.DigestACL(zk.PermAll, user, password)
	}
	if len(c.ACL) == 0 {
		c.ACL = zk.WorldACL(zk.PermAll)
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
	if c.SessionTimeout < time.Millisecond || c.SessionTimeout > MaxSessionTimeout {
		wrong("%s is %v; give a positive duration of %v at most, 4 s to 40 s with ZooKeeper's own "+
			"settings", words.Setting("Config.SessionTimeout"), c.SessionTimeout, MaxSessionTimeout)
	}
	if c.LockDelay > MaxLockDelay {
		wrong("LockDelay is %v; give %v at most", c.LockDelay, MaxLockDelay)
	}
	if c.HoldBack < 0 || c.HoldBack > election.MaxHoldBack {
		wrong("HoldBack is %v; give a positive duration of %v at most", c.HoldBack,
			election.MaxHoldBack)
	}
	if user, password, ok := strings.Cut(c.Digest, ":"); c.Digest != "" && (!ok || user == "" ||
		password == "" || strings.ContainsFunc(c.Digest, unicode.IsControl)) {
		wrong("Digest is not user:password in one line") // what it is stays a secret
	}
	if slices.ContainsFunc(c.Servers, func(s string) bool { return strings.Contains(s, "@") }) {
		wrong("Servers holds credentials, which no address of ZooKeeper has; give host:port, and "+
			"user:password as %s", words.Setting("Config.Digest")) // what they are stays a secret
	} else {
		for _, s := range c.Servers {
			if why := unreachable(s); s == "" {
				wrong("Servers holds an empty name among %q; give host:port", c.Servers)
			} else if why != "" {
				wrong("Servers holds %q: %s; give host:port", s, why)
			}
		}
	}
	elements := strings.Split(c.Root, "/")
	if len(elements) < 2 || elements[0] != "" {
		wrong("Root is %q; it must be an absolute path like %s", c.Root, DefaultRoot)
	}
	for _, e := range elements[1:] {
		if e == "" || e == "." || e == ".." || unfit(e) != "" {
			wrong("Root is %q; its element %q is none that ZooKeeper allows", c.Root, e)
		}
	}
	return errors.Join(errs...)
}

// unreachable says why nothing can ever be connected to at server; empty: something may be.
func unreachable(server string) string {
	if strings.Contains(server, "/") {
		return "a slash is in it, and a path below which all is kept goes into " +
			words.Setting("Config.Root")
	}
	if strings.ContainsFunc(server, func(r rune) bool { return unicode.IsSpace(r) || r == ';' }) {
		return "it is more than one"
	}
	if !strings.Contains(server, ":") {
		return ""
	}
	host, port, err := net.SplitHostPort(server)
	switch n, bad := strconv.ParseUint(port, 10, 16); {
	case err != nil:
		return "an IPv6 address is written [::1]:2181"
	case host == "":
		return "the host is missing"
	case bad != nil || n == 0:
		return fmt.Sprintf("%q is no port", port)
	}
	return ""
}

// unfit returns the first character that ZooKeeper refuses in a path; empty: there is none. See
// PathUtils in ZooKeeper's source, which counts in UTF-16.
func unfit(element string) string {
	for _, r := range element {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("%q", r)
		}
	}
	return ""
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
