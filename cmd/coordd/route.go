package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/pflag"
)

// routeFlags are the settings of --route.
type routeFlags struct {
	route                       string
	routeWait, routeTimeout     time.Duration
	routeInFlight, routeAMember int
}

func (o *routeFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.route, "route", "", "The `address` to take requests for items on, such as :8080: /<item>/... is sent to the owner's --address, /*/... to all members. Without it there is none.")
	f.DurationVar(&o.routeWait, "route-wait", dispatch.DefaultWait, "The `time` that a request may wait for an item that is being moved, or for a connection to its owner. 0s: it does not wait.")
	f.DurationVar(&o.routeTimeout, "route-timeout", dispatch.DefaultTimeout, "The `time` in which an owner has to begin its answer.")
	f.IntVar(&o.routeInFlight, "route-inflight", dispatch.DefaultInFlight, "The most `requests` under way at one time.")
	f.IntVar(&o.routeAMember, "route-inflight-member", 0, "The most `requests` under way to one member, so that a slow one delays nobody else. Without it: 256, or --route-inflight if that is less.")
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
		return usage("--route-inflight-member %d: give 1 to %d, which is --route-inflight", o.routeAMember, o.routeInFlight)
	}
	return checkListen("route", o.route)
}

// checkPublished refuses an address that cannot be one. A bare host is allowed: requests cannot be sent there.
func checkPublished(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		if !strings.ContainsAny(address, ":/ ") || net.ParseIP(address) != nil {
			return nil
		}
		return usage("--address %q: give host:port, or only a host", address)
	}
	if n, bad := strconv.ParseUint(port, 10, 16); host == "" || bad != nil || n == 0 || strings.ContainsAny(host, "/ ") {
		return usage("--address %q: give host:port with the name that others know the host by", address)
	}
	return nil
}

// route takes requests for items on an address. A nil route is switched off.
type route struct {
	first      net.Listener
	used       bool
	dispatcher *dispatch.Dispatcher
}

func openRoute(o routeFlags, router *routing.Router, published string, log *slog.Logger) (*route, error) {
	if o.route == "" {
		return nil, nil
	}
	wait := o.routeWait
	if wait == 0 {
		wait = -1
	}
	d, err := dispatch.New(dispatch.Config{Locator: router, Wait: wait, Timeout: o.routeTimeout, InFlight: o.routeInFlight, PerMember: o.routeAMember, Logger: log})
	if err != nil {
		return nil, err
	}
	ln, err := listen("route", o.route)
	if err != nil {
		return nil, err
	}
	router.Open()
	if _, _, err := net.SplitHostPort(published); err != nil {
		log.Warn("route-to-this-member-impossible", "address", published, "do", "give --address host:port of the service beside this member; requests for its items are refused until then")
	}
	return &route{first: ln, dispatcher: d}, nil
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

// children is the listener. It is to start before the member and so to stop after it: it takes requests until the
// member has handed everything over.
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
	return serve(ctx, ln, &http.Server{Handler: r.dispatcher, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}, routeLast)
}
