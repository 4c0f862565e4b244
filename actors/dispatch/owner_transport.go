package dispatch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors/routing"
)

// ownerTransport sends a request to the owner of its item, and again where that is needed and
// allowed.
type ownerTransport struct{ d *Dispatcher }

// mostLost is how often a request is sent again after a connection was lost: one that makes its
// service crash must not be sent for ever.
const mostLost = 2

func (c ownerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t := routedRequestOf(r.Context())
	a := attempts{d: c.d, giveUp: time.Now().Add(c.d.cfg.Wait)}
	for out := r; ; out = r.Clone(r.Context()) { // the attempt before may still be reading its own
		if err := a.locate(r.Context(), t); err != nil {
			return nil, err
		}
		if err := c.d.acquireMember(t); err != nil {
			return nil, err
		}
		setTarget(out, t)
		resp, sent, err := c.d.send(out, t.body)
		misdirected := err == nil && resp.StatusCode == http.StatusMisdirectedRequest
		if sent && !misdirected { // else it is as it was before
			t.asked = "member " + t.loc.Member
		}
		if err == nil && !misdirected {
			return resp, nil
		}
		a.last = refusalFor(t, resp, err)
		switch {
		case r.Context().Err() != nil:
			return nil, r.Context().Err()
		case t.body != nil && !t.body.replayable():
			return nil, a.last
		case a.last.reason == ReasonUnreachable, a.last.reason == ReasonMisdirected:
		case a.last.reason == ReasonLost && a.lost < mostLost && lostUnanswered(err) &&
			repeatable(r):
			a.lost++
		default:
			return nil, a.last
		}
	}
}

// attempts are those of one request.
type attempts struct {
	d      *Dispatcher
	giveUp time.Time
	lost   int
	pauses int
	last   *refusal // what came of the one before; nil: there was none
}

// locate finds out where the next attempt goes. It waits for a move to end; and, when the answer is
// the owner that the attempt before came to nothing with, for another answer or for a while that
// grows.
func (a *attempts) locate(ctx context.Context, t *routedRequest) error {
	defer a.d.endWaiting(t)
	before := t.loc
	if err := a.find(ctx, t); err != nil || a.last == nil || t.loc != before {
		return err
	}
	pause := min(50*time.Millisecond<<min(a.pauses, 5), time.Second)
	a.pauses++
	if time.Until(a.giveUp) < pause {
		return a.last
	}
	if !a.d.beginWaiting(t) {
		return a.last
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for cursor := a.d.cfg.Locator.Changed(); ; {
		cursor.Take()
		if loc, err := a.d.cfg.Locator.Locate(endedContext, t.item); err != nil || loc != before {
			break
		}
		select {
		case <-cursor.Changed():
			continue
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		break
	}
	return a.find(ctx, t)
}

// find locates the item, and waits for a move to end.
func (a *attempts) find(ctx context.Context, t *routedRequest) error {
	d := a.d
	var err error
	if t.loc, err = d.cfg.Locator.Locate(endedContext, t.item); err == nil {
		return nil
	}
	left := time.Until(a.giveUp)
	// the answer is not at hand: the locator would ask Consul
	reading := errors.Is(err, context.Canceled)
	if !reading && (!routing.Retriable(err) || left <= 0) {
		return unlocated(err)
	}
	if !d.beginWaiting(t) {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
			"item %q is not located yet, and too many requests are waiting for that or for "+
				"moves to end",
			t.item)
	}
	if left < readTime {
		t.loc, err = d.read(ctx, t.item)
	}
	if err != nil && routing.Retriable(err) && left > 0 {
		wait, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		t.loc, err = d.cfg.Locator.Await(wait, t.item)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return unlocated(err)
}

// beginWaiting takes a place among those that wait, if the request has none yet, and gives back the
// others that it has.
func (d *Dispatcher) beginWaiting(t *routedRequest) bool {
	if t.waits {
		return true
	}
	if !d.waiting.acquire() {
		return false
	}
	d.releaseAll(t)
	t.waits = true
	return true
}

// endWaiting gives back the place among those that wait, if the request has one.
func (d *Dispatcher) endWaiting(t *routedRequest) {
	if t.waits {
		t.waits = false
		d.waiting.release()
	}
}

// endedContext is a context that has ended.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// readTime is what a request that does not wait for moves gives the locator to ask Consul.
const readTime = time.Second

func (d *Dispatcher) read(ctx context.Context, item string) (routing.Location, error) {
	call, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return d.cfg.Locator.Locate(call, item)
}

// acquireMember takes a place among the requests to the item's owner, and among all if the request
// has waited.
func (d *Dispatcher) acquireMember(t *routedRequest) error {
	if host, port, err := net.SplitHostPort(t.loc.Address); err != nil || host == "" ||
		port == "" || port == "0" {
		return refuse(http.StatusBadGateway, ReasonNoAddress, 0,
			"item %q is at member %s, whose address is %q: start it with --address host:port of "+
				"the service beside it",
			t.item, t.loc.Member, t.loc.Address)
	}
	if t.countedAt == t.loc.Member {
		return nil
	}
	d.releaseMember(t)
	if !t.counted && !d.requests.acquire() {
		return d.full()
	}
	t.counted = true
	if err := d.requests.acquireAt(t.loc.Member); err != nil {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
			"no more requests to member %s: %v", t.loc.Member, err)
	}
	t.countedAt = t.loc.Member
	return nil
}

// send sends a request to a member, and tells the connection when it begins there, and when it is
// answered; of a client's body also what reads it. Sent: the member may have got it.
func (d *Dispatcher) send(r *http.Request, body *replayBody) (resp *http.Response, sent bool,
	err error) {
	var conn *idleConn
	var begun uint64
	resp, err = d.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(),
		&httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			sent = true
			if conn, _ = got.Conn.(*idleConn); conn != nil {
				begun = conn.begin(body.taken())
			}
		}})))
	if err == nil && conn != nil {
		conn.answer(begun)
	}
	// An idle connection may have turned out to be closed. What may not be sent twice net/http then
	// sends again only if nothing was written.
	sent = sent && (!notConnected(err) || repeatable(r))
	return resp, sent, err
}

// notConnected tells whether it is for want of a connection that a request was not answered.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// partly says who may have got a part of the body.
func (t *routedRequest) partly() string {
	if t.asked == "" {
		return ""
	}
	return "; " + t.asked + " may have got a part of it"
}

// setTarget directs the request to the owner.
func setTarget(out *http.Request, t *routedRequest) {
	out.URL.Host = t.loc.Address
	out.Header.Set(HeaderToken, strconv.FormatUint(t.loc.Token, 10))
	out.Header.Set(HeaderMember, url.PathEscape(t.loc.Member))
	if t.body == nil {
		return
	}
	out.Body = t.body.newReader()
	// for a connection that turns out to be closed before a byte was written
	out.GetBody = func() (io.ReadCloser, error) {
		if !t.body.replayable() {
			return nil, errOverrun
		}
		return t.body.newReader(), nil
	}
}

// refusalFor is the refusal that an attempt without a usable answer amounts to.
func refusalFor(t *routedRequest, resp *http.Response, err error) *refusal {
	if err == nil {
		// Read, so that the connection can be used again; but not for long.
		enough := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		enough.Stop()
		resp.Body.Close()
		return refuse(http.StatusServiceUnavailable, ReasonMisdirected, soon,
			"item %q: member %s says that it is not its own", t.item, t.loc.Member)
	}
	e, isNet := errors.AsType[net.Error](err)
	timeout := isNet && e.Timeout()
	broke := t.body.sourceError()
	if broke == nil && timeout && t.body.awaited() { // the member has to wait for it as well
		broke = os.ErrDeadlineExceeded
	}
	if broke != nil {
		return badBody(broke, t.patience, t.partly())
	}
	r := refuse(http.StatusBadGateway, ReasonLost, 0,
		"item %q: the connection to member %s at %s was lost before it answered: the request may "+
			"have been carried out",
		t.item, t.loc.Member, t.loc.Address)
	if f, ok := errors.AsType[*forbidden](err); ok {
		r = refuse(http.StatusBadGateway, ReasonForbidden, 0,
			"item %q: requests are not sent to member %s at %s: %v; give that member an "+
				"--address that others reach it by, or allow the network here with --route-allow",
			t.item, t.loc.Member, t.loc.Address, f)
	} else if notConnected(err) {
		r = refuse(http.StatusBadGateway, ReasonUnreachable, soon,
			"item %q: member %s cannot be connected to at %s", t.item, t.loc.Member, t.loc.Address)
	} else if timeout {
		r = refuse(http.StatusGatewayTimeout, ReasonTimeout, 0,
			"item %q: member %s at %s did not answer in time: the request may have been carried "+
				"out", t.item, t.loc.Member, t.loc.Address)
	}
	r.cause = err
	return r
}

// drainTime is what a refusing answer's body gets to arrive.
const drainTime = 100 * time.Millisecond

// lostUnanswered tells whether the connection went before any byte of an answer.
func lostUnanswered(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// repeatable tells whether a request may be carried out twice, by the rule of net/http, to which it
// does not matter what a key says.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	_, has := r.Header["Idempotency-Key"]
	_, hasX := r.Header["X-Idempotency-Key"]
	return has || hasX
}
