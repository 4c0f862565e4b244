package main

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
)

func TestLoopbackIsRoutedToOnlyWhereTheWholeServiceIsOnThisHost(t *testing.T) {
	for _, c := range []struct {
		route, address, page, allow, trust string
		want                               string
	}{
		{route: "127.0.0.1:8080", address: "127.0.0.1:9000", want: "[127.0.0.0/8 ::1/128]"},
		{route: ":8080", address: "localhost:9000", want: "[127.0.0.0/8 ::1/128]"},
		{route: "127.0.0.1:8080", page: "127.0.0.1:7070", want: "[127.0.0.0/8 ::1/128]"},
		{route: "[::1]:8080", want: "[127.0.0.0/8 ::1/128]"},
		// behind a front
		{route: "127.0.0.1:8080", address: "10.0.0.7:9000", page: "127.0.0.1:7070", want: "[]"},
		{route: ":8080", page: "127.0.0.1:7070", want: "[]"},
		{route: ":8080", want: "[]"},
		{route: "127.0.0.1:8080", page: ":7070", want: "[]"},
		{route: "127.0.0.1:8080", trust: "127.0.0.1", want: "[]"},
		{route: ":8080", address: "10.0.0.7:9000", allow: "127.0.0.1", want: "[127.0.0.1/32]"},
	} {
		o := routeFlags{route: c.route}
		for flag, list := range map[*[]string]string{&o.routeAllow: c.allow,
			&o.routeTrust: c.trust} {
			if list != "" {
				*flag = []string{list}
			}
		}
		reach, err := o.reach(whereabouts{address: c.address, published: "x:1", page: c.page})
		must(t, err)
		if got := fmt.Sprint(reach.Networks); got != c.want || reach.Own != "x:1" {
			t.Errorf("%+v: %+v", c, reach)
		}
	}
}

// However few descriptors there are, half of them or 512 are left for Consul and the rest.
func TestTheLimitsFitIntoTheDescriptors(t *testing.T) {
	for _, n := range []int{64, 128, 256, 592, 1024, 4096, 20_000, 65_536, unlimited} {
		for _, routes := range []bool{false, true} {
			b := budgetOf(n, routes)
			spare := min(512, n/2)
			if b.page < 1 || b.page+8+b.route > n-spare && n >= 128 {
				t.Errorf("%d descriptors: %+v", n, b)
			}
			if !routes {
				continue
			}
			for _, asked := range []routeLimits{
				{inFlight: 4096, member: 256, streams: 4096, stream: 1024},
				{inFlight: 4096, member: 256, streams: 1, stream: 1},
				{inFlight: 5, member: 5, streams: 4096, stream: 1024},
			} {
				l, fit := limitsOf(asked, b.route)
				// A request has a connection of its client's and one to its member; so has a
				// stream, and may have given its place back.
				used := l.conns + 8 + l.streams + l.inFlight + l.streams + l.fanout + l.idle
				if used > b.route || fit != (l.inFlight == asked.inFlight) ||
					l.member > l.inFlight || l.stream > l.streams {
					t.Errorf("%d descriptors, %d for the route: %+v use %d", n, b.route, l, used)
				}
				// those that wait for a move or an owner beside them
				if most := l.inFlight + max(1, l.inFlight/4) + l.streams; l.conns < most {
					t.Errorf("%d descriptors: %+v leave no connections to %d clients", n, l, most)
				}
			}
		}
	}
}

// A web page that rebinds its name to the route's address would read and write the services behind
// it.
func TestTheRouteIsAskedOnlyByTheNamesThatItWasGiven(t *testing.T) {
	d, err := dispatch.New(dispatch.Config{Locator: struct{ dispatch.Locator }{}})
	must(t, err)
	for names, refused := range map[string]string{"": "", "api.example": "evil.example"} {
		o := routeFlags{route: "127.0.0.1:8080"}
		if names != "" {
			o.routeHosts = []string{names}
		}
		h := (&route{dispatcher: d, hosts: o.hosts()}).server().Handler
		for _, host := range []string{"evil.example", "API.example.:443", "10.0.0.7:8080",
			"[::1]:8080", "localhost", "n1"} {
			w, want := httptest.NewRecorder(), 404 // by the dispatcher: the path names no item
			if host == refused {
				want = 403
			}
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = host
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("--route-host %q: %s was answered with %d %s", names, host, w.Code, w.Body)
			}
			reason := map[int]string{404: dispatch.ReasonPath, 403: dispatch.ReasonHost}[want]
			if got := w.Header().Get(dispatch.HeaderReason); got != reason {
				t.Errorf("%s: the reason is %q, not %q", host, got, reason)
			}
		}
	}
}
