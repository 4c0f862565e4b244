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

// Bounds of a session, as the server has them. The floor of the TTL is
// session_ttl_min, which an operator can raise.
const (
	MinTTL           = 10 * time.Second
	MaxTTL           = 86400 * time.Second
	DefaultLockDelay = time.Second
	MaxLockDelay     = 60 * time.Second
)

// SessionOptions are the properties of a session.
type SessionOptions struct {
	Name      string        // for people, in consul's own listings
	TTL       time.Duration // 10 s to 86400 s
	LockDelay time.Duration // default 1 s, at most 60 s; Consul's own default would be 15 s
}

// Validate reports what is out of Consul's range, naming the range, as
// [ErrInvalid].
func (o SessionOptions) Validate() error {
	switch {
	case o.TTL < MinTTL, o.TTL > MaxTTL:
		return invalid("session create", "TTL is %v; Consul takes %v to %v (10s to 86400s)", o.TTL, MinTTL, MaxTTL)
	case o.LockDelay < 0, o.LockDelay > MaxLockDelay:
		return invalid("session create", "lock-delay is %v; Consul takes 0s to %v, and would cap more silently", o.LockDelay, MaxLockDelay)
	}
	return nil
}

// CreateSession opens a session without any health check, because the default
// one can end a session before its TTL, with the behaviour delete: what it
// locks goes with it. Consul never ends it before sent + TTL by itself. When
// the outcome is unknown a session may be left over, holding nothing; it
// expires after twice its TTL.
func (s *Store) CreateSession(ctx context.Context, o SessionOptions) (id string, sent time.Time, err error) {
	if err := o.Validate(); err != nil {
		return "", time.Time{}, err
	}
	if o.LockDelay == 0 {
		o.LockDelay = DefaultLockDelay
	}
	c := call{op: "session create", timeout: s.timeoutOf(ctx), need: "session:write on the name of the agent's node"}
	sent = time.Now()
	err = c.do(ctx, func(ctx context.Context) error {
		entry := &api.SessionEntry{Name: o.Name, TTL: o.TTL.String(), LockDelay: o.LockDelay, Behavior: api.SessionBehaviorDelete}
		id, _, err = s.client.Session().CreateNoChecks(entry, (&api.WriteOptions{}).WithContext(ctx))
		if err == nil && id == "" {
			return unreachable(c.String(), "the answer names no session")
		}
		return err
	})
	if err != nil {
		return "", sent, err
	}
	return id, sent, nil
}

// RenewSession starts the TTL of a session anew: it lasts at least until sent
// + TTL. The deadline of ctx is the deadline of the call; without one it is
// the call timeout. [ErrSessionGone] says that everything held by it is over;
// no other error does. Consul's 404 alone does not say it: a server that has just
// begun to lead gives it for a living session as long as it replays its log
// (Session.Renew in Consul's source looks at the server's own state), so a
// consistent read has to confirm it.
func (s *Store) RenewSession(ctx context.Context, id string) (sent time.Time, err error) {
	c := call{op: "session renew", key: id, timeout: s.timeoutOf(ctx), need: "session:write on the node of the session"}
	if err := checkSession(c, id); err != nil {
		return time.Time{}, err
	}
	sent = time.Now()
	err = c.do(ctx, func(ctx context.Context) error {
		// Not the client's Renew: it takes an empty answer for the end of the
		// session and hides the status of all others.
		var entries []*api.SessionEntry
		_, err := s.client.Raw().Write("/v1/session/renew/"+id, nil, &entries, (&api.WriteOptions{}).WithContext(ctx))
		if status, ok := errors.AsType[api.StatusError](err); ok && status.Code == http.StatusNotFound && !page(status.Body) {
			return &callError{kind: ErrSessionGone, op: c.String(), text: "404 (" + shorten(status.Body) + "); open a new session"}
		}
		if err == nil && (len(entries) != 1 || entries[0] == nil || entries[0].ID != id) {
			return unreachable(c.String(), "the answer is not about this session")
		}
		return err
	})
	if !errors.Is(err, ErrSessionGone) {
		return sent, err
	}
	switch alive, asked := s.sessionExists(ctx, id, c.timeout); {
	case asked != nil:
		return sent, asked
	case alive:
		return sent, unreachable(c.String(), "404 for a session that exists: this Consul server has just begun to lead and still replays its log")
	default:
		return sent, err
	}
}

// DestroySession ends a session: its keys go, and cannot be locked for the
// lock-delay. Give up locks before, by deleting their keys: that has no delay.
// A session that is gone already is no error.
func (s *Store) DestroySession(ctx context.Context, id string) error {
	c := call{op: "session destroy", key: id, timeout: s.callTimeout, need: "session:write on the node of the session"}
	if err := checkSession(c, id); err != nil {
		return err
	}
	return c.do(ctx, func(ctx context.Context) error {
		var done bool
		_, err := s.client.Raw().Write("/v1/session/destroy/"+id, nil, &done, (&api.WriteOptions{}).WithContext(ctx))
		if err == nil && !done {
			return unreachable(c.String(), "the answer is not true")
		}
		return err
	})
}

// SessionExists asks, consistently, whether a session is alive.
func (s *Store) SessionExists(ctx context.Context, id string) (bool, error) {
	return s.sessionExists(ctx, id, s.callTimeout)
}

func (s *Store) sessionExists(ctx context.Context, id string, timeout time.Duration) (bool, error) {
	c := call{op: "session info", key: id, timeout: timeout, need: "session:read on the node of the session"}
	if err := checkSession(c, id); err != nil {
		return false, err
	}
	var exists bool
	err := c.do(ctx, func(ctx context.Context) error {
		var entries []*api.SessionEntry
		meta, err := s.client.Raw().Query("/v1/session/info/"+id, &entries, Consistent.options().WithContext(ctx))
		if err != nil {
			return err
		}
		if entries == nil || len(entries) > 1 || len(entries) == 1 && (entries[0] == nil || entries[0].ID != id) {
			return unreachable(c.String(), "the answer is not about this session")
		}
		exists = len(entries) == 1
		return checkMeta(c, meta)
	})
	return exists && err == nil, err
}

// timeoutOf leaves the deadline to a ctx that has one.
func (s *Store) timeoutOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(0, time.Until(deadline))
	}
	return s.callTimeout
}

func checkSession(c call, id string) error {
	if id == "" || strings.ContainsAny(id, "/?#% ") {
		return invalid(c.op, "%q is not a session id", id)
	}
	return nil
}

// page tells a proxy's own 404 from Consul's.
func page(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), "<") }

// String shows the options in logs.
func (o SessionOptions) String() string {
	return fmt.Sprintf("%s ttl=%v lock-delay=%v", o.Name, o.TTL, o.LockDelay)
}
