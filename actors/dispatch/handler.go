package dispatch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
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
	if refused := d.serve(w, r); refused != nil {
		d.log.Debug("request-refused", "method", r.Method, "path", r.URL.EscapedPath(), "status", refused.status, "reason", refused.reason, "why", refused.text)
		refused.write(w)
	}
}

func (d *Dispatcher) serve(w http.ResponseWriter, r *http.Request) *refusal {
	if route := r.Header.Values(headerRoute); len(route) > mostHops || contains(route, d.id) {
		return refuse(http.StatusLoopDetected, ReasonLoop, 0, "the request has been here before: some member's published address is that of a dispatcher; start the members with --address host:port of the service itself")
	}
	to := parsePath(r.URL.EscapedPath())
	if !to.ok {
		return refuse(http.StatusNotFound, ReasonPath, 0, "the path names no item: give /<item>/..., or /*/... for all members")
	}
	if !d.all.enter() {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon, "%d requests are under way, which is the limit", d.cfg.InFlight)
	}
	defer d.all.leave()
	c := newClient(w, r, d.cfg.Idle)
	defer c.done()
	if to.all {
		return d.broadcast(c, r)
	}
	t := &trip{item: to.item}
	if r.Body != nil && r.ContentLength != 0 {
		t.body = newTape(c)
	}
	defer d.leave(t)
	d.proxy.ServeHTTP(c, r.WithContext(context.WithValue(r.Context(), tripKey{}, t)))
	return nil
}

// mostHops is how many dispatchers a request may come through.
const mostHops = 8

func contains(values []string, id string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(part) == id {
				return true
			}
		}
	}
	return false
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
	p.SetXForwarded()
	p.Out.Header.Set(HeaderItem, url.PathEscape(tripOf(p.Out.Context()).item))
}

// strip takes out what must not come from a client.
func (d *Dispatcher) strip(out, in http.Header) {
	for name := range out {
		if isOurs(name) {
			delete(out, name)
		}
	}
	out[headerRoute] = append(append([]string(nil), in.Values(headerRoute)...), d.id)
}

// isOurs tells whether a header is one of coordd's, also in the spelling that some services cannot tell from it: where headers
// become variables, - and _ are the same.
func isOurs(name string) bool {
	const prefix = "coordd-"
	return len(name) >= len(prefix) && strings.EqualFold(strings.ReplaceAll(name[:len(prefix)], "_", "-"), prefix)
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
	switch {
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
