package main

import (
	"net/http/httptest"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
)

// However few descriptors there are, half of them or 512 are left for Consul and the rest.
func TestTheLimitsFitIntoTheDescriptors(t *testing.T) {
	for _, n := range []int{64, 128, 256, 592, 1024, 4096, 20_000, 65_536, unlimited} {
		for _, routes := range []bool{false, true} {
			b := budgetOf(n, routes)
			if b.page < 1 || b.page+b.route > n-min(512, n/2) && n >= 128 {
				t.Errorf("%d descriptors: %+v", n, b)
			}
			if !routes {
				continue
			}
			requests := min(dispatch.DefaultInFlight, requestsIn(b.route))
			used := clientConns(requests) + requests + min(requests, dispatch.IdleConns)
			if requests < 1 || used > max(4, b.route) ||
				n >= 20_000 && requests < dispatch.DefaultInFlight {
				t.Errorf("%d descriptors, %d for the route: %d requests use %d", n, b.route,
					requests, used)
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
