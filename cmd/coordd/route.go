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
		"The most `requests` under way at one time, WebSockets and event streams among them. A "+
			"quarter of them may wait for a move or for an owner.")
	f.IntVar(&o.routeAMember, "route-inflight-member", 0,
		"The most `requests` under way to one member, so that a slow one delays nobody else. "+
			"Without it: 256, or --route-inflight if that is less.")
	f.StringSliceVar(&o.routeAllow, "route-allow", defaultNetworks(),
		"The `networks` that members' addresses may be in. Never sent to, in any of them: a "+
			"cloud's metadata, 169.254.169.254 and fd00:ec2::254; and Consul's port, unless that "+
			"is 80 or 443.")
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
	for flag, list := range map[string][]string{"route-allow": o.routeAllow,
		"route-trust": o.routeTrust} {
		if _, err := networks(flag, list); err != nil {
			return err
		}
	}
	return checkListen("route", o.route)
}

// defaultNetworks are those of --route-allow.
func defaultNetworks() []string {
	var all []string
	for _, n := range dispatch.DefaultNetworks() {
		all = append(all, n.String())
	}
	return all
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

// route takes requests for items at its door.
type route struct {
	*door
	dispatcher *dispatch.Dispatcher
	hosts      *httpserver.Hosts // nil: any
	conns      int
	log        *slog.Logger
}

// hosts are the names that requests may be for. Nil: any.
func (o *routeFlags) hosts() *httpserver.Hosts {
	if len(o.routeHosts) == 0 {
		return nil
	}
	return httpserver.NewHosts("--route-host", append(o.routeHosts, o.route)...)
}

// openRoute listens. Published is this member's address, descriptors is how many it may use.
func openRoute(o routeFlags, router *routing.Router, published string, descriptors int,
	log *slog.Logger) (r route, err error) {
	if o.route == "" {
		return r, nil
	}
	wait := o.routeWait
	if wait == 0 {
		wait = -1
	}
	inFlight := min(o.routeInFlight, requestsIn(descriptors))
	if inFlight < o.routeInFlight {
		log.Warn("route-limited-by-descriptors", "descriptors", descriptors, "requests", inFlight,
			"asked_for", o.routeInFlight, "do",
			"raise the limit of open files (ulimit -n, LimitNOFILE), or give a lower "+
				"--route-inflight")
	}
	member := o.routeAMember
	if member == 0 {
		member = dispatch.DefaultPerMember
	}
	allow, err := networks("route-allow", o.routeAllow)
	if err != nil {
		return r, err
	}
	trust, err := networks("route-trust", o.routeTrust)
	if err != nil {
		return r, err
	}
	d, err := dispatch.New(dispatch.Config{
		Locator: router, Wait: wait, Timeout: o.routeTimeout,
		InFlight: inFlight, PerMember: min(member, inFlight),
		Networks: allow, Trusted: trust, Logger: log,
	})
	if err != nil {
		return r, err
	}
	door, err := openDoor("route", o.route)
	if err != nil {
		return r, err
	}
	router.Open()
	if _, _, err := net.SplitHostPort(published); err != nil {
		log.Warn("route-to-this-member-impossible", "address", published, "do",
			"give --address host:port of the service beside this member; requests for its items "+
				"are refused until then")
	}
	return route{door, d, o.hosts(), clientConns(inFlight), log}, nil
}

// children is the listener. It is to start before the member and so to stop after it: it takes
// requests until the member has handed everything over.
func (r *route) children() []supervisor.Child {
	if r.door == nil {
		return nil
	}
	return []supervisor.Child{{Name: "route", Run: r.run}}
}

// routePace is how long a client may rest within its body, and how long it may take for each piece
// of an answer.
const routePace = 30 * time.Second

// routeLast is for how long requests under way may go on when coordd stops.
const routeLast = 2 * time.Second

func (r *route) run(ctx context.Context) error {
	defer r.dispatcher.CloseIdleConnections()
	return r.serve(ctx, r.server(), routeLast)
}

func (r *route) server() *httpserver.Server {
	var h http.Handler = r.dispatcher
	if r.hosts != nil {
		h = r.hosts.Only(h, http.Header{dispatch.HeaderReason: {dispatch.ReasonHost}})
	}
	return httpserver.New(httpserver.Config{
		Handler: httpserver.Paced(h, routePace), Conns: r.conns, Header: 10 * time.Second,
		ErrorLog: errorLog(r.log),
	})
}
