package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/routing"
)

// routedRequest is one request that is being dispatched.
type routedRequest struct {
	item string
	body *replayBody // nil: there is none
	// patience is how long each piece of it may take.
	patience  time.Duration
	loc       routing.Location // where it goes
	asked     string           // who may have carried it out; empty: nobody has
	countedAt string           // the member whose limit of requests it counts in
	counted   bool             // it counts in the limit of all requests
	waits     bool             // it counts in the limit of those that wait
	// the member whose limit of streams it counts in, and in that of all streams
	streamAt string
	// the connection to a member that goes on in another protocol; nil: it does not
	upgraded io.Closer
}

type routedRequestKey struct{}

func routedRequestOf(ctx context.Context) *routedRequest {
	return ctx.Value(routedRequestKey{}).(*routedRequest)
}

// ServeHTTP dispatches one request.
func (d *Dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newClient(w, r, d.cfg.Idle, d.cfg.Timeout)
	defer c.done()
	if refused := d.serve(c, r); refused != nil {
		d.log.Debug("request-refused", "method", r.Method, "path", r.URL.EscapedPath(), "status",
			refused.status, "reason", refused.reason, "why", refused.text)
		refused.write(c)
	}
}

func (d *Dispatcher) serve(c *client, r *http.Request) *refusal {
	if route := routeOf(r.Header); len(route) > mostHops || slices.Contains(route, d.id) {
		return refuse(http.StatusLoopDetected, ReasonLoop, 0,
			"the request has been here before: some member's published address is that of a "+
				"dispatcher; start the members with --address host:port of the service itself")
	}
	if r.ProtoMajor == 2 && r.TLS == nil {
		return refuse(http.StatusHTTPVersionNotSupported, ReasonVersion, 0,
			"HTTP/2 without TLS (h2c), which gRPC speaks, is not dispatched: give HTTP/1.1")
	}
	r = escaped(r)
	to := parsePath(r.URL.EscapedPath())
	if r.Method == http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, ReasonPath, 0,
			"CONNECT opens tunnels, and requests for items go through none: use any other method")
	}
	if !to.ok {
		return refuse(http.StatusNotFound, ReasonPath, 0,
			"the path names no item: give /<item>/..., or /*/... for all members")
	}
	if to.leavesItem {
		return refuse(http.StatusBadRequest, ReasonClimbs, 0,
			"the path leaves its item by \"..\" elements: give it without them")
	}
	if !prints(upgradeType(r.Header)) { // which the proxy would not pass on
		return refuse(http.StatusBadRequest, ReasonPath, 0,
			"an upgrade is to a protocol whose name is ASCII, and this one's is not")
	}
	if !d.requests.acquire() {
		return d.full()
	}
	if to.all {
		defer d.requests.release()
		return d.broadcast(c, r)
	}
	t := &routedRequest{item: to.item, counted: true, patience: c.sent.Pace}
	defer d.releaseAll(t)
	defer t.close(c)
	if r.Body != nil && r.ContentLength != 0 {
		t.body = newReplayBody(c)
	}
	d.proxy.ServeHTTP(c, r.WithContext(context.WithValue(r.Context(), routedRequestKey{}, t)))
	return nil
}

// full is the refusal for want of a place.
func (d *Dispatcher) full() *refusal {
	return refuse(http.StatusServiceUnavailable, ReasonBusy, soon,
		"%d requests are under way, which is the limit", d.cfg.InFlight)
}

// mostHops is how many dispatchers a request may come through.
const mostHops = 8

// routeOf are the dispatchers that a request came through. What is no id of one is a client's
// invention.
func routeOf(h http.Header) []string {
	var route []string
	for _, v := range h.Values(headerRoute) {
		for id := range strings.SplitSeq(v, ",") {
			if id = strings.TrimSpace(id); len(id) == 2*idBytes &&
				strings.Trim(id, "0123456789abcdef") == "" {
				route = append(route, id)
			}
		}
	}
	return route
}

func (d *Dispatcher) releaseMember(t *routedRequest) {
	if t.countedAt != "" {
		d.requests.each.release(t.countedAt)
		t.countedAt = ""
	}
}

// releaseAll gives back all the limits that the request counts in.
func (d *Dispatcher) releaseAll(t *routedRequest) {
	d.releaseMember(t)
	if t.counted {
		t.counted = false
		d.requests.release()
	}
	if t.streamAt != "" {
		d.streams.each.release(t.streamAt)
		d.streams.release()
		t.streamAt = ""
	}
}

// close is for the end of the request. The proxy ends the member's connection only if it has taken
// the client's over.
func (t *routedRequest) close(c *client) {
	if t.body != nil {
		t.body.close(c.endReading)
	}
	if t.upgraded != nil {
		_ = t.upgraded.Close()
	}
}

// isStream tells whether an answer goes on until somebody ends it.
func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusSwitchingProtocols || kind == "text/event-stream"
}

// stream moves a request from the places of requests to those of streams.
func (d *Dispatcher) stream(t *routedRequest, r *http.Request) error {
	if !d.streams.acquire() {
		return answered(r, "%d upgraded connections and event streams are open, which is the limit",
			d.cfg.Streams)
	}
	if err := d.streams.acquireAt(t.loc.Member); err != nil {
		d.streams.release()
		return answered(r, "no more upgraded connections and event streams to member %s: %v",
			t.loc.Member, err)
	}
	as := t.loc.Member
	d.releaseAll(t)
	t.streamAt = as
	return nil
}

// answered is the refusal of a request that was answered, for want of places or room: only what may
// be carried out twice is worth another try.
func answered(r *http.Request, format string, args ...any) *refusal {
	if repeatable(r) {
		return refuse(http.StatusServiceUnavailable, ReasonBusy, soon, format, args...)
	}
	return refuse(http.StatusBadGateway, ReasonLost, 0,
		format+": the request may have been carried out", args...)
}

// rewrite makes the outgoing request of the client's; where it goes is for ownerTransport to say.
func (d *Dispatcher) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = "http"
	// nothing is decided by it here, so it need not be understood
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	// a service that takes WebSockets compares it with the page's origin
	p.Out.Host = p.In.Host
	p.Out.Trailer = nil
	d.strip(p.Out.Header, p.In.Header)
	dropOtherHTTP(p.Out.Header)
	if !p.In.ProtoAtLeast(1, 1) { // it does not know how to go on in another protocol
		dropUpgrade(p.Out.Header)
	}
	d.forwarded(p.Out.Header, p.In)
	p.Out.Header.Set(HeaderItem, url.PathEscape(routedRequestOf(p.Out.Context()).item))
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

// isOurs tells whether a header is one of coordd's, in any spelling that some service cannot tell
// from it.
func isOurs(name string) bool { return strings.HasPrefix(spelled(name), "Coordd-") }

// isForwarded tells it for those that say who the client is.
func isForwarded(name string) bool {
	name = spelled(name)
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}

// spelled is a header's name in the one spelling that is compared. Where headers become variables,
// - and _ are the same, and for lighttpd all other characters that are no letters or digits, too.
func spelled(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// forwarded says who the client is. What a trusted proxy says of it stays, with the proxy's own
// address behind it.
func (d *Dispatcher) forwarded(out http.Header, in *http.Request) {
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	said := map[string]string{"X-Forwarded-Host": in.Host, "X-Forwarded-Proto": proto}
	from, _, err := net.SplitHostPort(in.RemoteAddr)
	if d.trusts(from) {
		for name, values := range in.Header {
			if isForwarded(name) && spelled(name) == name {
				out[name] = slices.Clone(values)
			}
		}
	}
	for name, value := range said {
		if out.Get(name) == "" {
			out.Set(name, value)
		}
	}
	if err == nil {
		out.Set("X-Forwarded-For", strings.Join(append(out.Values("X-Forwarded-For"), from), ", "))
	}
}

func (d *Dispatcher) trusts(ip string) bool {
	at, err := netip.ParseAddr(ip)
	if err != nil {
		return false
	}
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(d.cfg.Trusted, func(n netip.Prefix) bool { return n.Contains(at) })
}

// dropOtherHTTP takes out the wish to go on in another version of HTTP, or in TLS. A service may
// ignore it (RFC 9110, 7.8); one that grants it would take requests from the client that nobody has
// looked at, with any token and for any item.
func dropOtherHTTP(h http.Header) {
	for protocol := range strings.SplitSeq(strings.Join(h.Values("Upgrade"), ","), ",") {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
		if name == "h2c" || name == "h2" || name == "h3" || name == "http" || name == "tls" {
			dropUpgrade(h)
		}
	}
	h.Del("Http2-Settings")
}

func dropUpgrade(h http.Header) {
	h.Del("Upgrade")
	h.Del("Connection") // the proxy has left nothing else in it
}

// upgradeType is the protocol that a head names to go on in; empty: none.
func upgradeType(h http.Header) string {
	for name := range strings.SplitSeq(strings.Join(h.Values("Connection"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
			return h.Get("Upgrade")
		}
	}
	return ""
}

// prints tells whether a name is ASCII that prints.
func prints(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// otherProtocol refuses a service that goes on in a protocol that nobody asked for.
func (t *routedRequest) otherProtocol(resp *http.Response) error {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	asked, got := upgradeType(resp.Request.Header), upgradeType(resp.Header)
	if asked != "" && len(asked) == len(got) && strings.EqualFold(asked, got) {
		return nil
	}
	return refuse(http.StatusBadGateway, ReasonLost, 0,
		"item %q: its member %s goes on in protocol %q, and %q was asked for: ask for one protocol",
		t.item, t.loc.Member, got, asked)
}

// setAnswerHeaders says in the answer which member gave it.
func (d *Dispatcher) setAnswerHeaders(resp *http.Response) error {
	ours := oursIn(resp)
	dropOurs(resp.Header)
	t := routedRequestOf(resp.Request.Context())
	if resp.StatusCode == http.StatusSwitchingProtocols {
		t.upgraded = resp.Body
	} else if resp.ContentLength < 0 { // else there are no trailers
		dropOurs(resp.Trailer) // which are announced
		resp.Body = trailed{resp.Body, resp}
	}
	if err := t.otherProtocol(resp); err != nil {
		return err
	}
	if isStream(resp) {
		if err := d.stream(t, resp.Request); err != nil {
			return err
		}
	}
	loc := t.loc
	resp.Header.Set(HeaderMember, url.PathEscape(loc.Member))
	resp.Header.Set(HeaderToken, strconv.FormatUint(loc.Token, 10))
	if ours != "" {
		resp.Header.Set(HeaderReason, ours)
	}
	if ours == ReasonNoAddress {
		resp.StatusCode = http.StatusBadGateway
	}
	return nil
}

// dropOurs takes out what a service says in coordd's name.
func dropOurs(h http.Header) {
	for name := range h {
		if isOurs(name) {
			delete(h, name)
		}
	}
}

// trailed is the body of an answer that may have trailers, which are there when it is closed.
type trailed struct {
	io.ReadCloser
	resp *http.Response
}

func (b trailed) Close() error {
	err := b.ReadCloser.Close()
	dropOurs(b.resp.Trailer)
	return err
}

// oursIn is the reason in an answer that no service gave: a dispatcher's, to itself, or that of
// coordd's page, which some member publishes in place of a service.
func oursIn(resp *http.Response) string {
	switch reason := resp.Header.Get(HeaderReason); {
	case resp.StatusCode == http.StatusLoopDetected && reason == ReasonLoop,
		resp.StatusCode == http.StatusBadGateway && reason == ReasonNoAddress,
		// a page that speaks TLS, which has not read the request
		resp.StatusCode == http.StatusBadRequest && reason == ReasonNoAddress:
		return reason
	}
	return ""
}

// failed answers for what did not come to an answer.
func (d *Dispatcher) failed(w http.ResponseWriter, r *http.Request, err error) {
	t := routedRequestOf(r.Context())
	refused, ok := errors.AsType[*refusal](err)
	over := ended(r.Context(), fmt.Sprintf("item %q", t.item), t.asked)
	if over == nil && r.Context().Err() != nil {
		t.body.settle()
	}
	switch {
	case over != nil:
		refused = over
	case errors.Is(t.body.sourceError(), os.ErrDeadlineExceeded):
		// with which the server cancels the request
		refused = badBody(t.body.sourceError(), t.patience, t.partly())
	case r.Context().Err() != nil:
		d.log.Debug("client-gone", "item", t.item, "member", t.loc.Member)
		// or the server would say 200: it may be there still, and only have sent nothing for too
		// long
		panic(http.ErrAbortHandler)
	case !ok: // the proxy's own, such as a failed upgrade
		refused = refuse(http.StatusBadGateway, ReasonLost, 0, "item %q: its member %s: %v", t.item,
			t.loc.Member, err)
	}
	d.log.Debug("request-refused", "item", t.item, "member", t.loc.Member, "status", refused.status,
		"reason", refused.reason, "why", refused.text, "err", refused.cause)
	refused.write(w)
}
