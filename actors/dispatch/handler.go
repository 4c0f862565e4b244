package dispatch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors/routing"
)

// trip is one request on its way.
type trip struct {
	item string
	body *tape            // nil: there is none
	loc  routing.Location // where it was last sent
	at   string           // the member whose gate it is in
}

type tripKey struct{}

func tripOf(ctx context.Context) *trip { return ctx.Value(tripKey{}).(*trip) }

// ServeHTTP dispatches one request.
func (d *Dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newClient(w, r, d.cfg.Idle)
	defer c.done()
	if refused := d.serve(c, r); refused != nil {
		d.log.Debug("request-refused", "method", r.Method, "path", r.URL.EscapedPath(), "status", refused.status, "reason", refused.reason, "why", refused.text)
		refused.write(c)
	}
}

func (d *Dispatcher) serve(c *client, r *http.Request) *refusal {
	if route := routeOf(r.Header); len(route) > mostHops || slices.Contains(route, d.id) {
		return refuse(http.StatusLoopDetected, ReasonLoop, 0, "the request has been here before: some member's published address is that of a dispatcher; start the members with --address host:port of the service itself")
	}
	to := parsePath(r.URL.EscapedPath())
	if r.Method == http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, ReasonPath, 0, "CONNECT opens tunnels, and requests for items go through none: use any other method")
	}
	if !to.ok {
		return refuse(http.StatusNotFound, ReasonPath, 0, "the path names no item: give /<item>/..., or /*/... for all members")
	}
	if !d.all.enter() {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon, "%d requests are under way, which is the limit", d.cfg.InFlight)
	}
	defer d.all.leave()
	if to.all {
		return d.broadcast(c, r)
	}
	t := &trip{item: to.item}
	if r.Body != nil && r.ContentLength != 0 {
		t.body = newTape(c)
		defer t.body.close()
	}
	defer d.leave(t)
	d.proxy.ServeHTTP(c, r.WithContext(context.WithValue(r.Context(), tripKey{}, t)))
	return nil
}

// mostHops is how many dispatchers a request may come through.
const mostHops = 8

// routeOf are the dispatchers that a request came through. What is no id of one is a client's invention.
func routeOf(h http.Header) []string {
	var route []string
	for _, v := range h.Values(headerRoute) {
		for id := range strings.SplitSeq(v, ",") {
			if id = strings.TrimSpace(id); len(id) == 2*idBytes && strings.Trim(id, "0123456789abcdef") == "" {
				route = append(route, id)
			}
		}
	}
	return route
}

func (d *Dispatcher) leave(t *trip) {
	if t.at != "" {
		d.members.leave(t.at)
		t.at = ""
	}
}

// rewrite makes the outgoing request of the client's; where it goes is for the carrier to say.
func (d *Dispatcher) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = "http"
	p.Out.URL.RawQuery = p.In.URL.RawQuery // nothing is decided by it here, so it need not be understood
	p.Out.Host = ""
	p.Out.Trailer = nil
	d.strip(p.Out.Header, p.In.Header)
	dropOtherHTTP(p.Out.Header)
	p.SetXForwarded()
	p.Out.Header.Set(HeaderItem, url.PathEscape(tripOf(p.Out.Context()).item))
}

// strip takes out what must not come from a client.
func (d *Dispatcher) strip(out, in http.Header) {
	for name := range out {
		if isOurs(name) || isForwarded(name) {
			delete(out, name)
		}
	}
	out[headerRoute] = append(routeOf(in), d.id)
}

// isOurs tells whether a header is one of coordd's, also in the spelling that some services cannot tell from it: where headers
// become variables, - and _ are the same.
func isOurs(name string) bool {
	const prefix = "coordd-"
	return len(name) >= len(prefix) && strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix)
}

// isForwarded tells it for those that say who the client is.
func isForwarded(name string) bool {
	switch http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) {
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		return true
	}
	return false
}

// dropOtherHTTP takes out the wish to go on in another version of HTTP, or in TLS. A service may ignore it (RFC 9110, 7.8); one that
// grants it would take requests from the client that nobody has looked at, with any token and for any item.
func dropOtherHTTP(h http.Header) {
	for protocol := range strings.SplitSeq(strings.Join(h.Values("Upgrade"), ","), ",") {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
		if name == "h2c" || name == "h2" || name == "h3" || name == "http" || name == "tls" {
			h.Del("Upgrade")
			h.Del("Connection") // the proxy has left nothing else in it
		}
	}
	h.Del("Http2-Settings")
}

// sign says in the answer whose it is.
func (d *Dispatcher) sign(resp *http.Response) error {
	looped := resp.StatusCode == http.StatusLoopDetected && resp.Header.Get(HeaderReason) == ReasonLoop
	for name := range resp.Header {
		if isOurs(name) {
			delete(resp.Header, name)
		}
	}
	loc := tripOf(resp.Request.Context()).loc
	resp.Header.Set(HeaderMember, url.PathEscape(loc.Member))
	resp.Header.Set(HeaderToken, strconv.FormatUint(loc.Token, 10))
	if looped { // said by this very dispatcher, to itself
		resp.Header.Set(HeaderReason, ReasonLoop)
	}
	return nil
}

// failed answers for what did not come to an answer.
func (d *Dispatcher) failed(w http.ResponseWriter, r *http.Request, err error) {
	t := tripOf(r.Context())
	refused, ok := errors.AsType[*refusal](err)
	stopping := errors.Is(context.Cause(r.Context()), ErrStopping)
	switch {
	case stopping && t.loc.Member == "":
		refused = refuse(http.StatusServiceUnavailable, ReasonNotReady, soon, "item %q: the dispatcher stops, and the request was not sent to anybody", t.item)
	case stopping:
		refused = refuse(http.StatusBadGateway, ReasonLost, 0, "item %q: the dispatcher stops before member %s has answered: the request may have been carried out", t.item, t.loc.Member)
	case errors.Is(r.Context().Err(), context.Canceled):
		d.log.Debug("client-gone", "item", t.item, "member", t.loc.Member)
		panic(http.ErrAbortHandler) // or the server would say 200: it may be there still, and only have sent nothing for too long
	case r.Context().Err() != nil:
		refused = refuse(http.StatusGatewayTimeout, ReasonTimeout, 0, "item %q: the time for the request is over", t.item)
	case !ok: // the proxy's own, such as a failed upgrade
		refused = refuse(http.StatusBadGateway, ReasonLost, 0, "item %q: its member %s: %v", t.item, t.loc.Member, err)
	}
	d.log.Debug("request-refused", "item", t.item, "member", t.loc.Member, "status", refused.status, "reason", refused.reason, "why", refused.text, "err", refused.cause)
	refused.write(w)
}
