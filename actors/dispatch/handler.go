package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/words"
)

// routedRequest is one request to a member that is being dispatched.
type routedRequest struct {
	item      string
	broadcast bool             // it goes to loc, and to no other member
	loc       routing.Location // where it goes
	at        string           // the member at which it has a place; empty: none
	body      *body            // nil: there is none
	refused   *refusal         // what it came to; nil: it was answered
}

type routedRequestKey struct{}

func routedRequestOf(ctx context.Context) *routedRequest {
	return ctx.Value(routedRequestKey{}).(*routedRequest)
}

// ServeHTTP dispatches one request.
func (d *Dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused := d.serve(w, r); refused != nil {
		d.logRefusal(r, refused)
		refused.write(w)
	}
}

func (d *Dispatcher) logRefusal(r *http.Request, refused *refusal) {
	d.log.Debug("request-refused", "method", r.Method, "path", r.URL.EscapedPath(), "status",
		refused.status, "reason", refused.reason, "why", refused.text, "err", refused.cause)
}

func (d *Dispatcher) serve(w http.ResponseWriter, r *http.Request) *refusal {
	to := parsePath(r.URL.EscapedPath())
	switch {
	case r.Header[headerRoute] != nil:
		return refuse(http.StatusLoopDetected, ReasonLoop, 0,
			"a dispatcher has sent the request here: some member's published address is that of "+
				"a dispatcher; start the members with %s host:port of the service itself",
			words.Setting("Config.Address"))
	case !to.ok || r.Method == http.MethodConnect:
		return refuse(http.StatusNotFound, ReasonPath, 0,
			"the path names no item: give /<item>/..., or /*/... for all members")
	case to.climbs:
		return refuse(http.StatusBadRequest, ReasonClimbs, 0,
			"the path may leave its item by \"..\" elements: give it without them")
	case !d.places.acquire():
		return d.full()
	}
	defer d.places.release()
	if to.all {
		return d.broadcast(w, r)
	}
	d.proxyTo(&routedRequest{item: to.item}, w, r)
	return nil
}

// proxyTo sends a request and passes the answer on. It panics with http.ErrAbortHandler when the
// client has gone, or the answer breaks off.
func (d *Dispatcher) proxyTo(t *routedRequest, w http.ResponseWriter, r *http.Request) {
	defer func() { d.places.enter(t.at, "") }()
	d.proxy.ServeHTTP(finalAnswer{w}, r.WithContext(context.WithValue(r.Context(),
		routedRequestKey{}, t)))
}

// finalAnswer passes on no interim answers (1xx). The server sends 100 Continue by itself, and hints
// are for one connection.
type finalAnswer struct{ http.ResponseWriter }

func (f finalAnswer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (f finalAnswer) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// rewrite makes the outgoing request of the client's; where it goes is for toMember to say.
func (d *Dispatcher) rewrite(p *httputil.ProxyRequest) {
	t := routedRequestOf(p.Out.Context())
	out, h := p.Out, p.Out.Header
	out.URL.Scheme = "http"
	// nothing is decided by it here, so it need not be understood
	out.URL.RawQuery = p.In.URL.RawQuery
	// a service that takes WebSockets compares it with the page's origin
	out.Host = p.In.Host
	out.Trailer = nil
	for name := range h {
		if isOurs(name) || isForwarded(name) {
			delete(h, name)
		}
	}
	h.Set(headerRoute, "1")
	h.Set(HeaderItem, url.PathEscape(t.item))
	// Over a connection that goes on in another version of HTTP a client could name any item and
	// token.
	if t.broadcast || !p.In.ProtoAtLeast(1, 1) || !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h.Del("Upgrade")
		h.Del("Connection") // the proxy has left nothing else in it
	}
	if t.broadcast {
		h.Set(HeaderItem, "*")
		h.Del("Accept-Encoding") // a JSON document shows plain text
	}
	d.forward(p)
}

// forward says who the client is. What a trusted proxy says of it stays, with the proxy's own
// address behind it.
func (d *Dispatcher) forward(p *httputil.ProxyRequest) {
	in, out := p.In.Header, p.Out.Header
	if !d.trusts(p.In.RemoteAddr) {
		p.SetXForwarded()
		return
	}
	for name, values := range in {
		if isForwarded(name) && dashed(name) == name {
			out[name] = slices.Clone(values)
		}
	}
	p.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if said := in[name]; said != nil {
			out[name] = slices.Clone(said)
		}
	}
}

func (d *Dispatcher) trusts(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	ip := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(d.cfg.Trusted, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// isOurs tells whether a header is one of coordd's, in any spelling that some service cannot tell
// from it.
func isOurs(name string) bool { return strings.HasPrefix(dashed(name), "Coordd-") }

// isForwarded tells it for those that say who the client is.
func isForwarded(name string) bool {
	name = dashed(name)
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}

// dashed is a header's name in the one spelling that is compared. Where headers become variables,
// a dash and any other character that is no letter or digit are the same.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// setAnswerHeaders says in the answer which member gave it.
func (d *Dispatcher) setAnswerHeaders(resp *http.Response) error {
	t := routedRequestOf(resp.Request.Context())
	got, asked := resp.Header.Get("Upgrade"), resp.Request.Header.Get("Upgrade")
	if resp.StatusCode == http.StatusSwitchingProtocols &&
		(asked == "" || !strings.EqualFold(got, asked)) {
		return refuse(http.StatusBadGateway, ReasonLost, 0,
			"member %s goes on in protocol %q, which nobody asked for", t.loc.Member, got)
	}
	switch reason := resp.Header.Get(HeaderReason); reason {
	case ReasonLoop:
		return refuse(http.StatusLoopDetected, reason, 0,
			"the address %s of member %s is that of a dispatcher: start it with %s "+
				"host:port of the service beside it",
			t.loc.Address, t.loc.Member, words.Setting("Config.Address"))
	case ReasonNoAddress:
		return refuse(http.StatusBadGateway, reason, 0,
			"the address %s of member %s is that of coordd's page, and of no service: start the "+
				"member with %s host:port of the service beside it",
			t.loc.Address, t.loc.Member, words.Setting("Config.Address"))
	}
	endToEnd(resp.Header)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Header.Set("Connection", "Upgrade")
		resp.Header.Set("Upgrade", got)
	} else {
		endToEnd(resp.Trailer)
		resp.Body = &trailed{resp.Body, resp}
	}
	resp.Header.Set(HeaderMember, url.PathEscape(t.loc.Member))
	resp.Header.Set(HeaderGrant, strconv.FormatUint(t.loc.Grant, 10))
	return nil
}

// hopByHop are the headers that are for one connection, beside those that Connection names.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authentication-Info", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade"}

// endToEnd removes from the headers or trailers of an answer what is for one connection, and what
// is the dispatcher's own to say.
func endToEnd(h http.Header) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if isOurs(name) || slices.Contains(hopByHop, http.CanonicalHeaderKey(name)) {
			delete(h, name)
		}
	}
}

// trailed is the body of an answer, whose trailers are known when it has been read.
type trailed struct {
	io.ReadCloser
	of *http.Response
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		endToEnd(t.of.Trailer)
	}
	return n, err
}

// failed answers for what did not come to an answer.
func (d *Dispatcher) failed(w http.ResponseWriter, r *http.Request, err error) {
	t := routedRequestOf(r.Context())
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
	case r.Context().Err() != nil:
		// the client has gone; an answer without a status would be 200
		panic(http.ErrAbortHandler)
	default: // the proxy's own, such as a failed upgrade
		refused = refuse(http.StatusBadGateway, ReasonLost, 0, "member %s: %v", t.loc.Member, err)
	}
	t.refused = refused
	d.logRefusal(r, refused)
	refused.write(w)
}
