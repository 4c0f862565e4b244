package dispatch

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/printable"
)

// The headers of a dispatched request and of its answer.
const (
	HeaderItem = "Coordd-Item" // percent-encoded; an asterisk in a broadcast
	// the owner's grant; in the answer: the one that it was sent with
	HeaderGrant  = "Coordd-Grant"
	HeaderMember = "Coordd-Member" // percent-encoded
	// HeaderReason says why the dispatcher itself refused a request; answers of the service have
	// none.
	HeaderReason = "Coordd-Reason"
	headerRoute  = "Coordd-Route" // a dispatcher has sent the request
)

// The reasons of refusals.
const (
	ReasonUnknown     = "unknown-item" // 404
	ReasonPath        = "no-item"      // 404: the path names none
	ReasonNoOwner     = "no-owner"     // 503
	ReasonMoving      = "moving"       // 503: for longer than the request could wait
	ReasonNotReady    = "not-ready"    // 503: Consul does not answer, or not all is read yet
	ReasonBusy        = "busy"         // 503: too many requests under way
	ReasonMisdirected = "misdirected"  // 503: the member says that the item is not its own
	ReasonUnreachable = "unreachable"  // 502: the member takes no connection
	ReasonNoAddress   = "no-address"   // 502: the member published no address of a service
	// 502: requests are not sent to the address that the member published: see Config.Networks
	ReasonForbidden = "address"
	// 502: the connection broke before an answer: the request may have been carried out
	ReasonLost = "lost"
	// 504: no answer in time; 408: the request's body is not here in time
	ReasonTimeout  = "timeout"
	ReasonBody     = "body"        // 400: the request's body broke off
	ReasonLoop     = "loop"        // 508: a member's address leads back here
	ReasonTooLarge = "too-large"   // 413: a broadcast's body
	ReasonClimbs   = "leaves-item" // 400: the path leaves the item by ".." elements
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

// nothingDone tells whether the request was not carried out, and may be by another attempt.
func (r *refusal) nothingDone() bool {
	return r.reason == ReasonUnreachable || r.reason == ReasonMisdirected
}

// maybeDone tells whether the request may have been carried out.
func (r *refusal) maybeDone() bool { return r.reason == ReasonLost || r.reason == ReasonTimeout }

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

// full is the refusal for want of a place.
func (d *Dispatcher) full() *refusal {
	return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
		"%d requests are under way or wait, which is the limit", d.cfg.InFlight)
}

// badBody is the refusal for a request whose body could not be read.
func badBody(err error) *refusal {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, ReasonTimeout, 0,
			"the request's body was not here in time")
	}
	return refuse(http.StatusBadRequest, ReasonBody, 0,
		"the request's body broke off (%v): send it again", err)
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
