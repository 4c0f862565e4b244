package dispatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

func TestWhatAProxySaysOfTheClientArrivesIfItIsTrusted(t *testing.T) {
	for network, want := range map[string]map[string]string{
		"127.0.0.0/8": {
			"X-Forwarded-For": "[6.6.6.6, 127.0.0.1]", "X-Forwarded-Proto": "[https]",
			"X-Forwarded-Host": "[public.example]", "X-Forwarded-Port": "[443]",
			"X-Real-Ip": "[6.6.6.6]", "Forwarded": "[for=6.6.6.6]", "X-Forwarded_user": "[]",
		},
		"10.0.0.0/8": {
			"X-Forwarded-For": "[127.0.0.1]", "X-Forwarded-Proto": "[http]",
			"X-Forwarded-Host": "[front]", "X-Forwarded-Port": "[]", "X-Real-Ip": "[]",
			"Forwarded": "[]", "X-Forwarded_user": "[]",
		},
	} {
		w := newWorld(t, func(cfg *dispatch.Config) {
			cfg.Trusted = []netip.Prefix{netip.MustParsePrefix(network)}
		})
		got := make(chan *http.Request, 1)
		echo := func(_ http.ResponseWriter, r *http.Request) { got <- r }
		w.owner("a", "n1", 1, echo)
		w.table.members = []routing.Member{{ID: "n1", Address: w.service(echo)}}
		for _, path := range []string{"/a/", "/*/"} {
			conn, in := w.dial()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: front\r\nX-Forwarded-For: 6.6.6.6\r\n"+
				"X-Forwarded-Proto: https\r\nX-Forwarded-Host: public.example\r\n"+
				"X-Forwarded-Port: 443\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded_User: root\r\n"+
				"Forwarded: for=6.6.6.6\r\n\r\n", path)
			answers(t, in, http.StatusOK)
			r := <-got
			for header, want := range want {
				if fmt.Sprint(r.Header.Values(header)) != want {
					t.Errorf("from %s, %s: %s is %q, want %s", network, path, header,
						r.Header.Values(header), want)
				}
			}
			// A library for WebSockets refuses a page whose origin is not the host.
			if r.Host != "front" {
				t.Errorf("%s: the service was asked for %q", path, r.Host)
			}
		}
	}
}

func TestTrailersOfAClientDoNotArrive(t *testing.T) {
	w := newWorld(t)
	got := make(chan *http.Request, 1)
	w.owner("a", "n1", 42, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "POST /a/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"+
		"Trailer: Coordd-Grant\r\n\r\n1\r\nx\r\n0\r\nCoordd-Grant: 99\r\n\r\n")
	answers(t, in, 200)
	if r := <-got; len(r.Trailer) != 0 || fmt.Sprint(r.Header[dispatch.HeaderGrant]) != "[42]" {
		t.Errorf("trailers %v, headers %v", r.Trailer, r.Header)
	}
}

// A service that went on in HTTP/2 would take requests from the client past the dispatcher, with
// any token.
func TestOnlyAnUpgradeToWebSocketIsPassedOn(t *testing.T) {
	w := newWorld(t)
	got := make(chan http.Header, 1)
	w.owner("a", "n1", 42, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(
		func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })}}
	for _, c := range []struct{ path, version, protocol, arrives string }{
		{"/a/", "1.1", "WebSocket", "WebSocket"},
		{"/a/", "1.0", "websocket", ""}, // it knows no upgrades
		{"/*/", "1.1", "websocket", ""}, // the answers are gathered
		{"/a/", "1.1", "h2c", ""},
		{"/a/", "1.1", "TLS/1.3", ""},
		{"/a/", "1.1", "websocket, h2c", ""},
	} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET %s HTTP/%s\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"+
			"Upgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", c.path, c.version, c.protocol)
		answers(t, in, http.StatusOK)
		h := <-got
		if h.Get("Upgrade") != c.arrives || h.Get("Http2-Settings") != "" {
			t.Errorf("%v: the service got %v", c, h)
		}
	}
}

func TestATunnelCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 42, func(http.ResponseWriter, *http.Request) { t.Error("it arrived") })
	for _, target := range []string{"/a/x", "elsewhere.test:80"} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
		answers(t, in, http.StatusNotFound)
	}
}

func TestAPathThatMayLeaveItsItemIsRefused(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, r.RequestURI)
	})
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(http.ResponseWriter,
		*http.Request) {
	})}}
	for path, want := range map[string]int{
		"/a/../b/x": 400, "/a/..": 400, "/a/x/../y": 400, "/a/%2e%2e/b": 400, "/a/.%2E/b": 400,
		"/a/%2e%2e%2fb": 400, "/a/..%5cb": 400, `/a/x\..`: 400, "/a/..;x=y/b": 400,
		"/*/../b": 400, "/../a/x": 400, "/%2e%2e/x": 400,
		"/a/x%2Fy/z": 200, "/a/...": 200, "/a/x..y/..z": 200, "/a/.": 200, "/a/;..": 200,
		"/*/x": 200, "/a/?q=/../..": 200,
	} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want ||
			(want == 400) != (resp.Header.Get(dispatch.HeaderReason) == dispatch.ReasonClimbs) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
		if want == 200 && path[1] != '*' && string(body) != path {
			t.Errorf("%s arrived as %s", path, body)
		}
	}
}

// A member that runs with --http and without --address publishes the address of coordd's page.
func TestAnAddressOfNoServiceIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	page := w.service(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(dispatch.HeaderReason, dispatch.ReasonNoAddress)
		http.Error(rw, "this is the page of coordd", http.StatusBadGateway)
	})
	w.table.set("a", routing.Location{Member: "n1", Address: page, Grant: 1})
	w.refused(w.do("GET", "/a/", ""), 502, dispatch.ReasonNoAddress)
	w.table.members = []routing.Member{{ID: "n1", Address: page},
		{ID: "n2", Address: w.front.Listener.Addr().String()}}
	a := w.do("GET", "/*/", "")
	if g := gathered(t, a); a.StatusCode != 503 || !strings.Contains(g.Missing["n1"],
		"Config.Address host:port") || !strings.Contains(g.Missing["n2"], "dispatcher") {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// silentLocator does not know where most items are, and takes its time to find out.
type silentLocator struct{ *table }

func (l silentLocator) Locate(ctx context.Context, item string) (routing.Location, error) {
	if loc, err := l.table.Locate(ctx, item); err == nil {
		return loc, nil
	}
	<-ctx.Done()
	return routing.Location{}, fmt.Errorf("item %q %w: %w", item, routing.ErrNotReady, ctx.Err())
}

func (l silentLocator) Await(ctx context.Context, item string) (routing.Location, error) {
	return l.Locate(ctx, item)
}

func TestALocatorThatKeepsSilentIsNotWaitedForForEver(t *testing.T) {
	for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
		w := newWorld(t, func(c *dispatch.Config) {
			c.Wait = wait
			c.Locator = silentLocator{c.Locator.(*table)}
		})
		w.refused(w.do("GET", "/a/", ""), 503, dispatch.ReasonNotReady)
	}
}

// Those that wait are a quarter of all, be it for a move or for Consul.
func TestThoseThatWaitLeaveRoomForOthers(t *testing.T) {
	for name, locator := range map[string]func(*table) dispatch.Locator{
		"for a move": func(l *table) dispatch.Locator { return l },
		"for Consul": func(l *table) dispatch.Locator { return silentLocator{l} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *dispatch.Config) {
				c.Locator = locator(c.Locator.(*table))
				c.InFlight, c.PerMember, c.Wait = 8, 4, 2*testkit.Patience
			})
			w.table.set("moving", routing.ErrMoving)
			w.owner("a", "n1", 1, func(http.ResponseWriter, *http.Request) {})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int)
			for range 6 {
				go func() {
					r, _ := http.NewRequestWithContext(ctx, "GET", w.front.URL+"/moving/", nil)
					resp, err := w.client.Do(r)
					if err != nil {
						ended <- 0
						return
					}
					resp.Body.Close()
					ended <- resp.StatusCode
				}()
			}
			for range 4 { // two may wait
				if status := <-ended; status != 503 {
					t.Errorf("status %d", status)
				}
			}
			if a := w.do("GET", "/a/", ""); a.StatusCode != 200 {
				t.Errorf("%s while two wait", a.Status)
			}
			cancel() // they stop waiting
			for range 2 {
				<-ended
			}
			w.underWay("nothing waits any more", 0)
		})
	}
}
