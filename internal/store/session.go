package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// Bounds of a session. The server has a floor of its own for the TTL, its session_ttl_min: by
// default that is DefaultTTL, and an operator can lower it or raise it. MinTTL is ours: no lease is
// shorter.
const (
	MinTTL           = 2 * time.Second
	DefaultTTL       = 10 * time.Second
	MaxTTL           = 86400 * time.Second
	DefaultLockDelay = time.Second
	MaxLockDelay     = 60 * time.Second
)

// SessionOptions are the properties of a session.
type SessionOptions struct {
	Name      string        // for people, in consul's own listings
	TTL       time.Duration // 2 s to 86400 s; the server refuses less than its session_ttl_min
	LockDelay time.Duration // default 1 s, at most 60 s; Consul's own default would be 15 s
	// Check is that of an [Instance] at the same agent. The session ends when it turns critical, or
	// when the gossip of Consul's agents finds that the agent's node has gone (serfHealth). Empty:
	// it is bound to no check.
	Check string
}

// Validate reports what no server takes, naming the range, as [ErrInvalid].
func (o SessionOptions) Validate() error {
	switch {
	case o.TTL < MinTTL, o.TTL > MaxTTL:
		return Invalid("session create", "TTL is %v; give one of %v to %v (2s to 86400s)", o.TTL,
			MinTTL, MaxTTL)
	case o.LockDelay < 0, o.LockDelay > MaxLockDelay:
		return Invalid("session create",
			"lock-delay is %v; Consul takes 0s to %v, and would cap more silently", o.LockDelay,
			MaxLockDelay)
	}
	return nil
}

// CreateSession opens a session with the behaviour delete: what it locks goes with it. Without
// o.Check it has no health check at all, because the default one can end a session before its TTL:
// then Consul never ends it before sent + TTL by itself. With one it may end at any time, and
// [ErrNoCheck] says that the check is not passing. When the outcome is unknown a session may be
// left over, holding nothing; it expires after twice its TTL.
//
// In a datacenter that is not the agent's own there is no session for it: [ErrInvalid].
func (s *consul) CreateSession(ctx context.Context, o SessionOptions) (id string, sent time.Time,
	err error) {
	if err := o.Validate(); err != nil {
		return "", time.Time{}, err
	}
	if o.LockDelay == 0 {
		o.LockDelay = DefaultLockDelay
	}
	c := call{op: "session create", timeout: s.timeoutOf(ctx),
		need: "session:write on the name of the agent's node"}
	sent = time.Now()
	err = s.do(ctx, c, func(ctx context.Context) error {
		entry := &api.SessionEntry{Name: o.Name, TTL: o.TTL.String(), LockDelay: o.LockDelay,
			Behavior: api.SessionBehaviorDelete}
		create := s.client.Session().CreateNoChecks
		if o.Check != "" {
			entry.NodeChecks = []string{"serfHealth"}
			entry.ServiceChecks = []api.ServiceCheck{{ID: o.Check}}
			create = s.client.Session().Create
		}
		id, _, err = create(entry, (&api.WriteOptions{}).WithContext(ctx))
		if err == nil && id == "" {
			return unreachable(c.String(), "the answer names no session")
		}
		return err
	})
	if err != nil {
		return "", sent, err
	}
	s.own.Store(&id)
	return id, sent, nil
}

// RenewalLimit is how long each of the two requests of a renewal may last that has failed tries
// times: a quarter of the lease. A connection that is dead or frozen is left early enough for two
// more tries within the lease. A Consul that takes a fifth of the lease for each answer loses
// nobody the lease: the renewal and its read take two fifths, and so do those after them; with a
// shorter limit the first try would fail, and the second one come too late. Two failures cost the
// lease as a rule. Then more time helps a Consul that is slower still: its session lives for 2 x
// TTL.
func RenewalLimit(lease time.Duration, tries int) time.Duration {
	if tries < 2 {
		return lease / 4
	}
	return lease / 3
}

// RenewSession starts the TTL of a session anew, and makes sure that it exists: the session's
// holder may count on it until sent + TTL, by the rule that who takes over from a session that
// has ended waits a TTL from its end. Each of its two requests may last for limit; 0: for the call
// timeout, or until the deadline of ctx if that has one.
//
// Consul's answer to a renewal proves nothing, neither 200 nor 404: Session.Renew in Consul's
// source looks at the state of the server that leads, and one that has just begun to lead holds an
// old state for as long as it replays its log. So a session that has ended is renewed there, and
// one that lives is unknown. A consistent read that was sent after the renewal's answer confirms
// either: it is answered from a state that is no older than the read. [ErrSessionGone] says that
// everything held by the session is over; no other error does.
func (s *consul) RenewSession(ctx context.Context, id string, limit time.Duration) (sent time.Time,
	err error) {
	if limit == 0 {
		limit = s.timeoutOf(ctx)
	}
	c := call{op: "session renew", key: id, timeout: limit,
		need: "session:write on the node of the session"}
	if err := CheckSessionID(c.op, id); err != nil {
		return time.Time{}, err
	}
	sent = time.Now()
	known, err := s.renew(ctx, c)
	if err != nil {
		return sent, err
	}
	switch exists, err := s.sessionExists(ctx, id, limit); {
	case err != nil:
		return sent, err
	case !exists:
		return sent, &callError{kind: ErrSessionGone, op: c.String(),
			text: "no such session, by a consistent read; open a new session"}
	case !known:
		return sent, unreachable(c.String(),
			"404 for a session that exists: this Consul server has just begun to lead and still "+
				"replays its log")
	}
	return sent, nil
}

// renew sends the renewal; known: the server that answered knows the session.
func (s *consul) renew(ctx context.Context, c call) (known bool, err error) {
	err = s.do(ctx, c, func(ctx context.Context) error {
		// Not the client's Renew: it takes an empty answer for the end of the
		// session and hides the status of all others.
		var entries []*api.SessionEntry
		_, err := s.client.Raw().Write("/v1/session/renew/"+c.key, nil, &entries,
			(&api.WriteOptions{}).WithContext(ctx))
		if status, ok := errors.AsType[api.StatusError](err); ok &&
			status.Code == http.StatusNotFound && !page(status.Body) {
			return nil
		}
		if err == nil && (len(entries) != 1 || entries[0] == nil || entries[0].ID != c.key) {
			return unreachable(c.String(), "the answer is not about this session")
		}
		known = err == nil
		return err
	})
	return known, err
}

// DestroySession ends a session: its keys go, and cannot be locked for the
// lock-delay. Give up locks before, by deleting their keys: that has no delay.
// A session that is gone already is no error.
func (s *consul) DestroySession(ctx context.Context, id string) error {
	c := call{op: "session destroy", key: id, timeout: s.callTimeout,
		need: "session:write on the node of the session"}
	if err := CheckSessionID(c.op, id); err != nil {
		return err
	}
	if own := s.own.Load(); own != nil && *own == id {
		s.own.Store(nil)
	}
	return s.do(ctx, c, func(ctx context.Context) error {
		var done bool
		_, err := s.client.Raw().Write("/v1/session/destroy/"+id, nil, &done,
			(&api.WriteOptions{}).WithContext(ctx))
		if err == nil && !done {
			return unreachable(c.String(), "the answer is not true")
		}
		return err
	})
}

func (s *consul) sessionExists(ctx context.Context, id string, timeout time.Duration) (bool,
	error) {
	_, exists, err := s.sessionInfo(ctx, id, timeout)
	return exists, err
}

// SessionInfo asks, consistently, whether a session is alive, and what it was made with: its name
// and its TTL, 0 where it has none. Consul finds it by capital letters as well, and names it in
// small ones.
func (s *consul) SessionInfo(ctx context.Context, id string) (o SessionOptions, exists bool,
	err error) {
	return s.sessionInfo(ctx, id, s.callTimeout)
}

// sessionInfo looks for a session. To those without a token Consul does not say that it leaves a
// session out because it may not be read. So one of others is over only where that which this
// process keeps is shown: the rules may name nodes, but as a rule they are the same for all. Both
// are asked for at the same moment, so that a take-over waits for one answer.
func (s *consul) sessionInfo(ctx context.Context, id string, timeout time.Duration) (
	o SessionOptions, exists bool, err error) {
	own := s.own.Load()
	if own == nil || strings.EqualFold(*own, id) {
		return s.lookUpSession(ctx, id, timeout)
	}
	// Once the other one is seen to live nobody waits for this answer.
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	shown, answered := false, make(chan func() error, 1)
	go func() {
		answered <- outcomeOf(func() (err error) {
			_, shown, err = s.lookUpSession(beside, *own, timeout)
			return err
		})
	}()
	if o, exists, err = s.lookUpSession(ctx, id, timeout); err != nil || exists {
		return o, exists, err
	}
	if err := (<-answered)(); err != nil || shown {
		return o, false, err
	}
	return o, false, &callError{kind: ErrDenied, op: "session info " + id,
		text: "this process's own session is not shown either: unless that has just ended, the " +
			"token, or without one the anonymous one, needs session:read on all nodes"}
}

func (s *consul) lookUpSession(ctx context.Context, id string, timeout time.Duration) (
	o SessionOptions, exists bool, err error) {
	c := call{op: "session info", key: id, timeout: timeout,
		need: "session:read on the node of the session"}
	if err := CheckSessionID(c.op, id); err != nil {
		return SessionOptions{}, false, err
	}
	err = s.do(ctx, c, func(ctx context.Context) error {
		var entries []*api.SessionEntry
		meta, err := s.client.Raw().Query("/v1/session/info/"+id, &entries,
			Consistent.options().WithContext(ctx))
		if err != nil {
			return err
		}
		if entries == nil || len(entries) > 1 || len(entries) == 1 && (entries[0] == nil ||
			!strings.EqualFold(entries[0].ID, id)) {
			return unreachable(c.String(), "the answer is not about this session")
		}
		if exists = len(entries) == 1; exists {
			o.Name = entries[0].Name
			if ttl, err := time.ParseDuration(entries[0].TTL); err == nil {
				o.TTL = ttl
			}
			for _, check := range entries[0].ServiceChecks {
				o.Check = check.ID
			}
		}
		return checkMeta(c, meta)
	})
	return o, exists && err == nil, err
}

// timeoutOf leaves the deadline to a ctx that has one.
func (s *consul) timeoutOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(0, time.Until(deadline))
	}
	return s.callTimeout
}

// CheckSessionID reports, as [ErrInvalid], an id that could be no session's. Op begins the message.
func CheckSessionID(op, id string) error {
	if !sessionID(id) {
		return Invalid(op, "%q is not a session id", ShortenPart(id))
	}
	return nil
}

// sessionID tells whether id could be a session's: Consul makes UUIDs.
func sessionID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// page tells a proxy's own 404 from Consul's.
func page(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), "<") }

// String shows the options in logs.
func (o SessionOptions) String() string {
	return fmt.Sprintf("%s ttl=%v lock-delay=%v", o.Name, o.TTL, o.LockDelay)
}
