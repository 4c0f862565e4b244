package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/pflag"
)

// routeFlags are the settings of --route.
type routeFlags struct {
	route                       string
	routeWait, routeTimeout     time.Duration
	routeInFlight, routeAMember int
	routeStreams, routeAStream  int
	routeAllow, routeTrust      []string
	routeHosts                  []string
}

func (o *routeFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.route, "route", "",
		"The `address` to take requests for items on, such as :8080: /<item>/... is sent to the "+
			"owner's --address, /*/... to all members. Without it there is none.")
	f.DurationVar(&o.routeWait, "route-wait", dispatch.DefaultWait,
		"The `time` that a request may wait for an item that is being moved, or for a connection "+
			"to its owner. 0s: it does not wait.")
	f.DurationVar(&o.routeTimeout, "route-timeout", dispatch.DefaultTimeout,
		"The `time` in which an owner has to begin its answer.")
	f.IntVar(&o.routeInFlight, "route-inflight", dispatch.DefaultInFlight,
		"The most `requests` under way at one time, beside a quarter as many that wait for a move "+
			"or for an owner.")
	f.IntVar(&o.routeAMember, "route-inflight-member", 0,
		"The most `requests` under way to one member, so that a slow one delays nobody else. "+
			"Without it: 256, or --route-inflight if that is less.")
	f.IntVar(&o.routeStreams, "route-streams", dispatch.DefaultInFlight,
		"The most upgraded `connections` and event streams at one time: they take no places from "+
			"requests.")
	f.IntVar(&o.routeAStream, "route-streams-member", 0,
		"The most upgraded `connections` and event streams to one member. Without it: 1024, or "+
			"--route-streams if that is less.")
	f.StringSliceVar(&o.routeAllow, "route-allow", nil,
		"The loopback, link-local or metadata `networks`, such as 127.0.0.0/8, that members' "+
			"addresses may be in. Without it requests go to none but this member's own "+
			"--address; and to all of loopback where the whole service is on this host: with a "+
			"loopback --address, or with none, a loopback --route and --http, and no "+
			"--route-trust.")
	f.StringSliceVar(&o.routeTrust, "route-trust", nil,
		"The `networks` of the proxies before --route, such as a TLS front's: what they say of "+
			"the client in X-Forwarded-* is passed on.")
	f.StringSliceVar(&o.routeHosts, "route-host", nil,
		"The `names`, separated by commas, that --route may be asked for by, beside addresses, "+
			"names without a dot and this host's own: a web page that rebinds its name to this "+
			"address is then refused. Without it any, and the services look at Host themselves.")
}

// check refuses what cannot work before anything starts.
func (o *routeFlags) check(published string) error {
	if published != "" {
		if err := checkPublished(published); err != nil {
			return err
		}
	}
	if o.route == "" {
		return nil
	}
	switch {
	case o.routeWait < 0:
		return usage("--route-wait %v: give 0s or more", o.routeWait)
	case o.routeTimeout <= 0:
		return usage("--route-timeout %v: give a time above 0s", o.routeTimeout)
	case o.routeInFlight < 1:
		return usage("--route-inflight %d: give 1 or more", o.routeInFlight)
	case o.routeAMember < 0 || o.routeAMember > o.routeInFlight:
		return usage("--route-inflight-member %d: give 1 to %d, which is --route-inflight",
			o.routeAMember, o.routeInFlight)
	}
	switch {
	case o.routeStreams < 1:
		return usage("--route-streams %d: give 1 or more", o.routeStreams)
	case o.routeAStream < 0 || o.routeAStream > o.routeStreams:
		return usage("--route-streams-member %d: give 1 to %d, which is --route-streams",
			o.routeAStream, o.routeStreams)
	}
	for flag, list := range map[string][]string{"route-allow": o.routeAllow,
		"route-trust": o.routeTrust} {
		if _, err := networks(flag, list); err != nil {
			return err
		}
	}
	if err := checkHosts("route-host", o.routeHosts); err != nil {
		return err
	}
	return checkListen("route", o.route)
}

// networks reads those of a flag: 10.0.0.0/8, or one address.
func networks(flag string, list []string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for _, text := range list {
		n, err := netip.ParsePrefix(text)
		if at, bad := netip.ParseAddr(text); bad == nil {
			n, err = netip.PrefixFrom(at.Unmap(), at.Unmap().BitLen()), nil
		}
		if err != nil {
			return nil, usage(
				"--%s %q: give networks such as 127.0.0.0/8, or addresses, separated by commas",
				flag, text)
		}
		found = append(found, n.Masked())
	}
	return found, nil
}

// loopback tells whether only this host can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkPublished refuses an address that cannot be one. A bare host is allowed: requests cannot be
// sent there.
func checkPublished(address string) error {
	if strings.Contains(address, "/") || !isAddress(address) {
		return usage("--address %q: give host:port with the name that others know the host by",
			address)
	}
	return nil
}

// route takes requests for items on an address. A nil route is switched off.
type route struct {
	first      net.Listener
	used       bool
	dispatcher *dispatch.Dispatcher
	hosts      *httpserver.Hosts // nil: any
	conns      int
	log        *slog.Logger
}

// whereabouts are the addresses that decide where requests may go.
type whereabouts struct {
	address   string // --address; empty: none was given
	published string // what the member's record says
	page      string // --http; empty: none
}

// onlyHere tells whether the whole service is on this host. It is if this member's --address is a
// loopback one, for nobody else could reach it; or if there is none, and all that this member
// listens on is loopback, with no proxy before it. A false record then gains nothing by naming
// loopback: whoever can send a request here can connect there, too.
func (o *routeFlags) onlyHere(w whereabouts) bool {
	if w.address != "" {
		return loopback(w.address)
	}
	return loopback(o.route) && (w.page == "" || loopback(w.page)) && len(o.routeTrust) == 0
}

// reach says where requests may go.
func (o *routeFlags) reach(w whereabouts) (*dispatch.Reach, error) {
	allow, err := networks("route-allow", o.routeAllow)
	if err != nil {
		return nil, err
	}
	if o.onlyHere(w) {
		allow = append(allow, netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("::1/128"))
	}
	return &dispatch.Reach{Own: w.published, Networks: allow}, nil // Consul's the router knows
}

// hosts are the names that requests may be for. Nil: any.
func (o *routeFlags) hosts() *httpserver.Hosts {
	if len(o.routeHosts) == 0 {
		return nil
	}
	return httpserver.NewHosts("--route-host", append(o.routeHosts, o.route)...)
}

// openRoute listens. Descriptors is how many it may use.
func openRoute(o routeFlags, router *routing.Router, at whereabouts, descriptors int,
	log *slog.Logger) (*route, error) {
	if o.route == "" {
		return nil, nil
	}
	wait := o.routeWait
	if wait == 0 {
		wait = -1
	}
	member := o.routeAMember
	if member == 0 {
		member = min(dispatch.DefaultPerMember, o.routeInFlight)
	}
	stream := o.routeAStream
	if stream == 0 {
		stream = min(4*dispatch.DefaultPerMember, o.routeStreams)
	}
	l, fit := limitsOf(routeLimits{inFlight: o.routeInFlight, member: member,
		streams: o.routeStreams, stream: stream}, descriptors)
	if !fit {
		log.Warn("route-limited-by-descriptors", "descriptors", descriptors, "requests", l.inFlight,
			"requests_to_a_member", l.member, "asked_for", o.routeInFlight,
			"do",
			"raise the limit of open files (ulimit -n, LimitNOFILE), or give a lower "+
				"--route-inflight")
	}
	reach, err := o.reach(at)
	if err != nil {
		return nil, err
	}
	trust, err := networks("route-trust", o.routeTrust)
	if err != nil {
		return nil, err
	}
	d, err := dispatch.New(dispatch.Config{
		Locator: router, Wait: wait, Timeout: o.routeTimeout,
		InFlight: l.inFlight, PerMember: l.member, Streams: l.streams, StreamsPerMember: l.stream,
		Fanout: l.fanout, IdleConns: l.idle,
		Reach: reach, Trusted: trust, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	ln, err := listen("route", o.route)
	if err != nil {
		return nil, err
	}
	router.Open()
	if _, _, err := net.SplitHostPort(at.published); err != nil {
		log.Warn("route-to-this-member-impossible", "address", at.published, "do",
			"give --address host:port of the service beside this member; requests for its items "+
				"are refused until then")
	}
	return &route{first: ln, dispatcher: d, hosts: o.hosts(), conns: l.conns, log: log}, nil
}

func (r *route) close() {
	if r != nil {
		_ = r.first.Close()
	}
}

func (r *route) address() string {
	if r == nil {
		return ""
	}
	return r.first.Addr().String()
}

// children is the listener. It is to start before the member and so to stop after it: it takes
// requests until the member has handed everything over.
func (r *route) children() []supervisor.Child {
	if r == nil {
		return nil
	}
	return []supervisor.Child{{Name: "route", Run: r.run}}
}

// routeLast is for how long requests under way may go on when coordd stops.
const routeLast = 2 * time.Second

func (r *route) run(ctx context.Context) error {
	ln := r.first
	if r.used {
		var err error
		if ln, err = net.Listen("tcp", r.address()); err != nil {
			return err
		}
	}
	r.used = true
	defer r.dispatcher.CloseIdleConnections()
	return serve(ctx, ln, r.server(), routeLast)
}

func (r *route) server() *httpserver.Server {
	return httpserver.New(httpserver.Config{
		// it paces its clients itself
		Handler: r.dispatcher, Hosts: r.hosts, Conns: r.conns, Header: 10 * time.Second,
		ErrorLog: errorLog(r.log), Refused: giveReason,
	})
}

// serverReasons are those of what the server refuses before the dispatcher sees it.
var serverReasons = map[int]string{
	http.StatusForbidden:          dispatch.ReasonHost,
	http.StatusServiceUnavailable: dispatch.ReasonBusy,
}

func giveReason(status int, h http.Header) {
	if reason := serverReasons[status]; reason != "" {
		h.Set(dispatch.HeaderReason, reason)
	}
}
