package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/words"
)

// call is one request: what it is for the message of its error, what
// permission it takes, and how long it may last.
type call struct {
	op      string // "get", "txn", "session renew"
	key     string // key, prefix or session; may be empty
	need    string // the permission to name in a 403
	timeout time.Duration
	poll    bool // it waits for a change
}

func (c call) String() string {
	if c.key == "" {
		return c.op
	}
	return fmt.Sprintf("%s %s", c.op, c.key)
}

type returnsKey struct{}

// WithReturns makes every call under the context call f when it comes back, however it ended, and
// when a part of its answer arrives: a caller that makes many calls in a row, or a long one, shows
// in this way that it does not hang.
func WithReturns(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, returnsKey{}, f)
}

// do runs f under the call's own deadline and turns what it returns into an
// error of this package.
func (c call) do(ctx context.Context, f func(context.Context) error) error {
	if returned, ok := ctx.Value(returnsKey{}).(func()); ok {
		defer returned()
	}
	if err := ctx.Err(); err != nil {
		// Consul's client would fail as well, but could not say that nothing was sent.
		return &callError{kind: ErrUnreachable, op: c.String(), text: "not sent: " + err.Error(),
			ended: err}
	}
	own, cancel := paced(ctx, c.timeout)
	defer cancel()
	err := f(own)
	if err != nil {
		err = c.classify(ctx, own, err)
	}
	return err
}

// classify finds the kind of err. The order matters: what the server said
// counts before what became of the context.
func (c call) classify(ctx, own context.Context, err error) error {
	if e, ok := errors.AsType[*callError](err); ok {
		return e
	}
	if errors.Is(err, ErrRefused) {
		return fmt.Errorf("%s: %w", c, err)
	}
	if errors.Is(err, ErrTooManyConns) {
		return c.crowded()
	}
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return c.status(status.Code, status.Body)
	}
	if ctxErr := endOf(ctx); ctxErr != nil {
		return &callError{kind: ErrUnreachable, op: c.String(), ended: ctxErr, unknown: true,
			cause: ErrNoAnswer, text: "gave up waiting for the answer: " + ctxErr.Error()}
	}
	if own.Err() != nil {
		return &callError{kind: ErrUnreachable, op: c.String(), unknown: true,
			cause: errors.Join(ErrNoAnswer, hideContext(err)), address: addressOf(err),
			text: fmt.Sprintf("no answer within %v", c.timeout)}
	}
	// The client's transactions report a bad status as text without the code.
	if body, ok := strings.CutPrefix(err.Error(), "Failed request: "); ok {
		return c.status(codeOfText(body), body)
	}
	return &callError{kind: ErrUnreachable, op: c.String(), text: err.Error(),
		cause: hideContext(err), unknown: !neverSent(err)}
}

// endOf is ctx.Err(), but also right in the moment when the deadline of ctx
// and the call's own are the same and only one timer has fired.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) && ctx.Err() == nil {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// status turns an HTTP status of Consul into an error.
func (c call) status(code int, body string) error {
	said := fmt.Sprintf("%d %s", code, http.StatusText(code))
	if code == 0 {
		said = "a refusal"
	}
	if text := strings.TrimSpace(body); text != "" {
		said += fmt.Sprintf(" (%s)", ShortenPart(text))
	}
	fail := func(kind error, unknown bool, text string) error {
		return &callError{kind: kind, op: c.String(), text: text, unknown: unknown}
	}
	switch {
	case code == http.StatusForbidden && strings.Contains(body, noBootstrap):
		return fail(ErrUnreachable, false, said+"; Consul's ACL system is not bootstrapped: Consul "+
			"is starting, or `consul acl bootstrap` was never run")
	case code == http.StatusForbidden && strings.Contains(body, notKnown):
		return c.unknownToken(said)
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return fail(ErrDenied, false, fmt.Sprintf("%s; the token needs %s", said, c.need))
	case code == http.StatusRequestEntityTooLarge:
		return fail(ErrInvalid, false,
			said+
				"; send less at once: at most 128 operations, 512 KB of body, 524288 bytes a value")
	case code == http.StatusTooManyRequests && strings.Contains(body, tooManyConns):
		return c.crowded()
	case code == http.StatusTooManyRequests:
		// Refused before it was looked at, so the outcome is known.
		return fail(ErrUnreachable, false, said+"; Consul's limits.request_limits may be too low")
	case code == http.StatusBadRequest && strings.Contains(body, "Consul Enterprise feature"):
		return fail(ErrInvalid, false, said+"; this Consul is the Community Edition: give neither "+
			"a namespace nor a partition ("+words.Setting("api.Config.Namespace")+", "+
			words.Setting("api.Config.Partition")+", CONSUL_NAMESPACE, CONSUL_PARTITION)")
	case code == http.StatusInternalServerError && strings.Contains(body, "No path to datacenter"):
		return fail(ErrUnreachable, false, said+"; is the datacenter's name right ("+
			words.Setting("api.Config.Datacenter")+")?")
	case code == http.StatusBadRequest, code == http.StatusMethodNotAllowed:
		return fail(ErrInvalid, false, said)
	case code == http.StatusInternalServerError &&
		strings.Contains(body, "Missing node registration"):
		return fail(ErrInvalid, false, said+"; members need a Consul agent in their own "+
			"datacenter ("+words.Setting("Config.Client")+", "+
			words.Setting("api.Config.Datacenter")+")")
	case code == http.StatusInternalServerError && strings.Contains(body, "invalid session"):
		return fail(ErrSessionGone, false, said+"; open a new session")
	case code == http.StatusInternalServerError && strings.Contains(body, "Invalid Session TTL"):
		return fail(ErrInvalid, false,
			said+"; choose a TTL in the range the server names: its floor is the session_ttl_min "+
				"of Consul's servers, 10s by default")
	case code == http.StatusInternalServerError && c.op == "session create" &&
		(strings.Contains(body, "Missing check") || strings.Contains(body, "is in critical state")):
		return &callError{kind: ErrUnreachable, op: c.String(), text: said, cause: ErrNoCheck}
	case code == http.StatusInternalServerError && strings.Contains(body, "invalid key name"):
		return fail(ErrInvalid, false, said)
	}
	return fail(ErrUnreachable, true, said)
}

// unknownToken is the error for a token that Consul does not know.
func (c call) unknownToken(said string) error {
	return &callError{kind: ErrDenied, cause: ErrUnknownToken, op: c.String(),
		text: fmt.Sprintf("%s; %v: it was deleted or has expired; give a valid one (a token file "+
			"is read again when it changes)", said, ErrUnknownToken)}
}

// tooManyConns is a part of what Consul says with 429 when it is for the number of connections.
const tooManyConns = "too many concurrent connections"

// crowded is the error for a connection that Consul has refused: before anything was read from it,
// so the outcome is known.
func (c call) crowded() error {
	return &callError{kind: ErrUnreachable, op: c.String(), cause: ErrTooManyConns,
		text: "429, too many connections from this host's address; raise " +
			"limits.http_max_conns_per_client of the Consul agent (200 by default, for all " +
			"processes of a host), or run less on this host"}
}

// codeOfText guesses the status of a transaction's error text. Whatever it
// does not know stays 0: unreachable, outcome unknown, which is always safe.
func codeOfText(body string) int {
	switch {
	case strings.Contains(body, "Permission denied"), strings.Contains(body, notKnown):
		return http.StatusForbidden
	case strings.Contains(body, "too large"), strings.Contains(body, "too many operations"):
		return http.StatusRequestEntityTooLarge
	case strings.Contains(body, tooManyConns):
		return http.StatusTooManyRequests
	case strings.Contains(body, "Failed to parse body"):
		return http.StatusBadRequest
	}
	return 0
}

// neverSent reports whether the request cannot have reached the server: no
// connection could be opened.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// hideContext drops a cause that matches a context error: it is not the
// caller's context that ended, and errors.Is must not say so.
func hideContext(err error) error {
	if contextError(err) {
		return nil
	}
	return err
}

// addressOf finds the server's address in an error of the HTTP client.
func addressOf(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if u, parseErr := url.Parse(e.URL); parseErr == nil {
			return u.Host
		}
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return e.address
	}
	return ""
}

// Shorten keeps what comes from outside from filling the log: it cuts text to 600 bytes.
func Shorten(text string) string { return cut(text, 600) }

// ShortenPart is for a part of what Shorten is for.
func ShortenPart(text string) string { return cut(text, 300) }

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
