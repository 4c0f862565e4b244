package dispatch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/words"
)

// toMember sends a request to its member. Of a request for an item that is the owner, and another
// one when the first has taken nothing.
type toMember struct{ d *Dispatcher }

// The pauses between two attempts.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// RoundTrip returns an answer, a [*refusal], or the error of a context that was canceled.
func (m toMember) RoundTrip(r *http.Request) (*http.Response, error) {
	d, t := m.d, routedRequestOf(r.Context())
	if r.Body != nil {
		t.body = &body{src: r.Body}
	}
	if t.broadcast {
		return d.send(r, t)
	}
	giveUp := time.Now().Add(d.cfg.Wait)
	// the attempt before may still be reading its request
	for out, pause := r, firstPause; ; out, pause = r.Clone(r.Context()), min(2*pause, lastPause) {
		if err := d.locate(r.Context(), t, giveUp); err != nil {
			return nil, err
		}
		resp, err := d.send(out, t)
		refused, ok := errors.AsType[*refusal](err)
		if !ok || !refused.nothingDone() || time.Until(giveUp) < pause {
			return resp, err
		}
		if _, sent := t.body.again(); sent != nil {
			return nil, err
		}
		if err := d.pause(r.Context(), pause); err != nil {
			return nil, err
		}
	}
}

// pause waits before the next attempt. If too many others wait, it does not.
func (d *Dispatcher) pause(ctx context.Context, pause time.Duration) error {
	if !d.places.wait() {
		return d.full()
	}
	defer d.places.waited()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readTime is what a request that does not wait for moves gives the locator to ask Consul.
const readTime = time.Second

// endedContext is a context that has ended.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// locate finds out where the next attempt goes. It waits for a move to end.
func (d *Dispatcher) locate(ctx context.Context, t *routedRequest, giveUp time.Time) error {
	var err error
	t.loc, err = d.cfg.Locator.Locate(endedContext, t.item)
	if err != nil && routing.Retriable(err) {
		if !d.places.wait() {
			return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
				"item %q: %d requests wait for moves to end or for Consul, which is the limit",
				t.item, d.places.mostWaiting)
		}
		defer d.places.waited()
		t.loc, err = d.await(ctx, t.item, giveUp)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return unlocated(err)
}

func (d *Dispatcher) await(ctx context.Context, item string, giveUp time.Time) (routing.Location,
	error) {
	read, cancel := context.WithTimeout(ctx, max(readTime, time.Until(giveUp)))
	defer cancel()
	loc, err := d.cfg.Locator.Locate(read, item)
	if err == nil || !routing.Retriable(err) || time.Until(giveUp) <= 0 {
		return loc, err
	}
	wait, cancel := context.WithDeadline(ctx, giveUp)
	defer cancel()
	return d.cfg.Locator.Await(wait, item)
}

// send sends a request to the member at t.loc.
func (d *Dispatcher) send(r *http.Request, t *routedRequest) (*http.Response, error) {
	if host, port, err := net.SplitHostPort(t.loc.Address); err != nil || host == "" ||
		port == "" || port == "0" {
		return nil, refuse(http.StatusBadGateway, ReasonNoAddress, 0,
			"member %s has no address of a service, but %q: start it with %s host:port of "+
				"the service beside it",
			t.loc.Member, t.loc.Address, words.Setting("Config.Address"))
	}
	entered := d.places.enter(t.at, t.loc.Member)
	if t.at = ""; !entered {
		return nil, refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
			"%d requests to member %s are under way, which is the limit", d.cfg.PerMember,
			t.loc.Member)
	}
	t.at = t.loc.Member
	r.URL.Host = t.loc.Address
	r.Header.Set(HeaderMember, url.PathEscape(t.loc.Member))
	if !t.broadcast {
		r.Header.Set(HeaderGrant, strconv.FormatUint(t.loc.Grant, 10))
	}
	if t.body != nil {
		r.Body, _ = t.body.again()
		// for an idle connection that turns out to be closed
		r.GetBody = t.body.again
	}
	resp, err := d.transport.RoundTrip(r)
	switch {
	case err == nil && resp.StatusCode == http.StatusMisdirectedRequest:
		resp.Body.Close()
		return nil, refuse(http.StatusServiceUnavailable, ReasonMisdirected, soon,
			"member %s says that item %q is not its own", t.loc.Member, t.item)
	case err == nil:
		return resp, nil
	case t.body.broke() == nil && errors.Is(r.Context().Err(), context.Canceled):
		return nil, r.Context().Err()
	}
	return nil, d.refusalFor(t, err)
}

// refusalFor is the refusal for a request that was not answered.
func (d *Dispatcher) refusalFor(t *routedRequest, err error) (r *refusal) {
	defer func() { r.cause = err }()
	if broke := t.body.broke(); broke != nil {
		return badBody(broke)
	}
	if f, ok := errors.AsType[*forbidden](err); ok {
		return refuse(http.StatusBadGateway, ReasonForbidden, 0,
			"requests are not sent to member %s at %s: %v; give that member another %s, "+
				"that others reach it by, or allow the network here with %s",
			t.loc.Member, t.loc.Address, f, words.Setting("Config.Address"),
			words.Setting("Config.Networks"))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return refuse(http.StatusBadGateway, ReasonUnreachable, soon,
			"member %s cannot be connected to at %s", t.loc.Member, t.loc.Address)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return refuse(http.StatusGatewayTimeout, ReasonTimeout, 0,
			"member %s at %s did not answer in time: the request may have been carried out",
			t.loc.Member, t.loc.Address)
	}
	return refuse(http.StatusBadGateway, ReasonLost, 0,
		"the connection to member %s at %s was lost before it answered: the request may have been "+
			"carried out",
		t.loc.Member, t.loc.Address)
}
