package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/printable"
)

// The headers of a dispatched request and of its answer.
const (
	HeaderItem = "Coordd-Item" // percent-encoded; an asterisk in a broadcast
	// the fencing token; in the answer: the one that it was sent with
	HeaderToken  = "Coordd-Token"
	HeaderMember = "Coordd-Member" // percent-encoded
	// HeaderReason says why the dispatcher itself refused a request; answers of the service have
	// none.
	HeaderReason = "Coordd-Reason"
	headerRoute  = "Coordd-Route" // the dispatchers that a request came through
)

// The reasons of refusals.
const (
	ReasonUnknown = "unknown-item" // 404
	// 404: the path names none; 405: the method is CONNECT; 400: a broadcast is to be upgraded, or
	// anything to what is no name of a protocol
	ReasonPath        = "no-item"
	ReasonNoOwner     = "no-owner"    // 503
	ReasonMoving      = "moving"      // 503: for longer than the request could wait
	ReasonNotReady    = "not-ready"   // 503: Consul does not answer, or not everything is read yet
	ReasonBusy        = "busy"        // 503: too many requests under way
	ReasonMisdirected = "misdirected" // 503: the member says that the item is not its own
	ReasonUnreachable = "unreachable" // 502: the member takes no connection
	ReasonNoAddress   = "no-address"  // 502: the member published no address of a service
	// 502: requests are not sent to the address that the member published: see [Reach]
	ReasonForbidden = "address"
	// 502: the connection broke before an answer: the request may have been carried out
	ReasonLost = "lost"
	// 504: no answer in time; 408: the request's body is not here in time
	ReasonTimeout  = "timeout"
	ReasonBody     = "body"         // 400: the request's body broke off
	ReasonLoop     = "loop"         // 508: a member's address leads back here
	ReasonTooLarge = "too-large"    // 413: a broadcast's body
	ReasonClimbs   = "leaves-item"  // 400: the path leaves the item by ".." elements
	ReasonVersion  = "http-version" // 505: HTTP/2 without TLS (h2c), as gRPC speaks it
	// 403: the request is for a name that is not one of --route-host: by coordd's own server before
	// the dispatcher
	ReasonHost = "host"
)

// refusal is an answer of the dispatcher's own.
type refusal struct {
	status int
	reason string
	after  int // seconds; 0: no Retry-After
	text   string
	cause  error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

func refuse(status int, reason string, after int, format string, args ...any) *refusal {
	return &refusal{status: status, reason: reason, after: after, text: fmt.Sprintf(format,
		args...)}
}

func (r *refusal) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set(HeaderReason, r.reason)
	if r.after > 0 {
		h.Set("Retry-After", strconv.Itoa(r.after))
	}
	w.WriteHeader(r.status)
	// an address in it is as a record says
	fmt.Fprintln(w, printable.Line(r.text))
}

// badBody is the refusal for a request whose body could not be read. Sent is who got a part of it;
// empty: nobody.
func badBody(err error, within time.Duration, sent string) *refusal {
	r := refuse(http.StatusBadRequest, ReasonBody, 0,
		"the request's body broke off (%v)%s: send it again", err, sent)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r = refuse(http.StatusRequestTimeout, ReasonTimeout, 0,
			"the request's body was not here in time: less than %d bytes of it came within %v%s",
			httpserver.Piece, within, sent)
	}
	r.cause = err
	return r
}

// ended is the refusal for a request whose context has ended, and not because its client has gone;
// nil: it has not. What names the request, asked who may have got it; empty: nobody.
func ended(ctx context.Context, what, asked string) *refusal {
	stopping := errors.Is(context.Cause(ctx), ErrStopping)
	switch {
	case stopping && asked == "":
		return refuse(http.StatusServiceUnavailable, ReasonNotReady, soon,
			"%s: the dispatcher stops, and nobody has carried the request out", what)
	case stopping:
		return refuse(http.StatusBadGateway, ReasonLost, 0,
			"%s: the dispatcher stops before %s has answered: the request may have been carried "+
				"out",
			what, asked)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return refuse(http.StatusGatewayTimeout, ReasonTimeout, 0,
			"%s: the time for the request is over", what)
	}
	return nil
}

// Seconds after which it makes sense to ask again: what a move takes, and what is more than a
// hiccup.
const (
	soon  = 1
	later = 5
)

// unlocated is the refusal for a locator's error.
func unlocated(err error) *refusal {
	r := &refusal{status: http.StatusServiceUnavailable, reason: ReasonNotReady, after: later,
		text: err.Error(), cause: err}
	switch {
	case errors.Is(err, routing.ErrUnknownItem):
		r.status, r.reason, r.after = http.StatusNotFound, ReasonUnknown, 0
	case errors.Is(err, routing.ErrNoOwner):
		r.reason = ReasonNoOwner
	case errors.Is(err, routing.ErrMoving):
		r.reason, r.after = ReasonMoving, soon
	}
	return r
}
