package onconsul

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// Defaults of Config.
const (
	DefaultTTL    = store.DefaultTTL
	DefaultPrefix = "election/"
	// DefaultMaxElections leaves a quarter of the connections that Consul takes to renewals, to
	// orders and to others on the host.
	DefaultMaxElections = 150
)

// Bounds of Config.Lease and Config.CheckTTL, and the CheckTTL of a connection without a check.
const (
	MinLease                  = 2 * time.Second
	MinCheckTTL               = time.Second
	NoCheck     time.Duration = -1
)

// Config is what a Conn is made of. Only Client is required.
type Config struct {
	// Client talks to Consul. Over TLS it should speak HTTP/1.1 only, with one idle connection at
	// most, and its transport must return when the context of a request ends: see
	// actors.Config.Client.
	Client *api.Client
	// Consul is what the log calls Client's server. Default: CONSUL_HTTP_ADDR, or the address of a
	// failed request.
	Consul string
	// Name of the session, for Consul's listings. Default "election".
	Name string
	// TTL of the session: 2 s to 24 h. Default 10 s. Consul's servers refuse less than their
	// session_ttl_min, which is 10 s by default: then candidates get election.ErrInvalid.
	TTL time.Duration
	// Lease is how long a leader counts on a renewal: 2 s to the TTL, which is the default. A
	// leader keeps its leadership while Consul is silent for up to about half of the lease.
	Lease time.Duration
	// Renew is the time between two renewals. Default Lease/3.
	Renew time.Duration
	// LockDelay is how long Consul keeps others from taking the leadership after a session ended
	// that had not given it up. Default: the lease, at most 60 s, which is what Consul takes. With
	// a LockDelay of at least the lease there are never two leaders, even if a session ends early
	// and its leader cannot hear of it. A shorter one is safe only if no session ends early. So
	// there is no check then.
	LockDelay time.Duration
	// CheckTTL is how long after this process's last report Consul takes it for lost. The process
	// registers at its Consul agent as an instance of Service with a check of this TTL, and reports
	// to it eight times as often. Its session ends with that check. 1 s to the TTL. Default (0):
	// 13/20 of the lease, so that no silence of Consul's that the lease outlasts ends the check;
	// with a LockDelay below the lease the default is NoCheck.
	//
	// NoCheck: there is no check, and Consul ends the session of a lost process after twice its
	// TTL. If the agent takes no check, or the token lacks service:write on Service, it is the
	// same, and the log says so.
	CheckTTL time.Duration
	// Service is the name of that service. Default: the Prefix without its last slash, and with a -
	// for each other one: "election".
	Service string
	// Prefix of all keys; it ends in a slash. Default "election/".
	Prefix string
	// MaxElections bounds how many elections this connection takes part in at one time, as
	// candidate or follower. Each costs a long poll. Consul takes 200 connections from one address
	// (limits.http_max_conns_per_client). Beyond that it would refuse renewals too, and all
	// leaderships would be lost. Default 150. One participant too many gets election.ErrInvalid.
	MaxElections int
	// HoldBack is how long others wait for the candidate of a hand-over that this connection
	// orders, once the leadership is free. Default 5 s, at most election.MaxHoldBack.
	HoldBack time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Lease = cmp.Or(c.Lease, c.TTL)
	c.Renew = cmp.Or(c.Renew, c.Lease/3)
	c.LockDelay = cmp.Or(c.LockDelay, min(c.Lease, store.MaxLockDelay))
	c.HoldBack = cmp.Or(c.HoldBack, 5*time.Second)
	if c.CheckTTL == 0 {
		c.CheckTTL = max(13*c.Lease/20, MinCheckTTL)
		if c.LockDelay < c.Lease {
			c.CheckTTL = NoCheck
		}
	}
	c.MaxElections = cmp.Or(c.MaxElections, DefaultMaxElections)
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.Name = cmp.Or(c.Name, "election")
	if c.Service == "" {
		c.Service = store.InstanceID(strings.Split(strings.TrimSuffix(c.Prefix, "/"), "/")...)
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
	if c.Lease < MinLease || c.Lease > c.TTL {
		wrong("Lease is %v; give one of %v to the TTL (%v)", c.Lease, MinLease, c.TTL)
	}
	if c.Renew < 0 || c.Renew > c.Lease/2 {
		wrong("Renew is %v; it must be positive and at most half the lease of %v", c.Renew, c.Lease)
	}
	switch {
	case c.CheckTTL == NoCheck:
	case c.CheckTTL < MinCheckTTL, c.CheckTTL > c.TTL:
		wrong("CheckTTL is %v; give one of %v to the TTL (%v), or none", c.CheckTTL, MinCheckTTL,
			c.TTL)
	case c.LockDelay < c.Lease:
		wrong("CheckTTL is %v, and LockDelay is %v, less than the lease of %v: a session that "+
			"ends with the check needs one of the lease at least; or give no check", c.CheckTTL,
			c.LockDelay, c.Lease)
	}
	if c.MaxElections < 0 {
		wrong("MaxElections is %d; give a positive number, or 0 for %d", c.MaxElections,
			DefaultMaxElections)
	}
	if c.HoldBack < 0 || c.HoldBack > election.MaxHoldBack {
		wrong("HoldBack is %v; give a positive duration of %v at most", c.HoldBack,
			election.MaxHoldBack)
	}
	if !strings.HasSuffix(c.Prefix, "/") || strings.HasPrefix(c.Prefix, "/") ||
		strings.Contains(c.Prefix, "//") {
		wrong("Prefix is %q; it must end in a slash and not begin with one", c.Prefix)
	}
	return errors.Join(errs...)
}

// Times are the lease, the check's TTL and the lock-delay, with the defaults filled in.
func (c Config) Times() (lease, check, lockDelay time.Duration) {
	c = c.withDefaults()
	return c.Lease, c.CheckTTL, c.LockDelay
}

// TakeOver is how long it takes at most until another candidate leads after a leader was lost that
// could not give its leadership up. It is the time until Consul notices, the lock-delay, and a
// second for calls. process is for a leader's process that was killed or hangs; machine is for a
// lost machine, whose end Consul's agents notice by gossip.
func (c Config) TakeOver() (process, machine time.Duration) {
	c = c.withDefaults()
	detect, gossip := 2*c.TTL, 2*c.TTL
	if c.CheckTTL != NoCheck {
		detect, gossip = c.CheckTTL, min(gossip, store.Gossip)
	}
	return detect + c.LockDelay + time.Second, gossip + c.LockDelay + time.Second
}
