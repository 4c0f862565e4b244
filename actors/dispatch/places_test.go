package dispatch_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

func TestSlowUploadersDoNotStopBroadcasts(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 4 * testkit.Patience })
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(rw http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(rw, "here")
	})}}
	for range 200 {
		conn, _ := w.dial()
		fmt.Fprint(conn, "POST /*/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
	}
	testkit.Eventually(t, "they have begun", func() bool {
		all, _ := w.d.InFlight("")
		return all == 200
	})
	for range 3 {
		if a := w.do("POST", "/*/", "body"); a.StatusCode != 200 {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
}

func TestAMemberThatHangsDoesNotMakeBroadcastsBusy(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 4 * testkit.Patience })
	w.broadcastsBeside(9, 1, 20)
}

// The requests of all broadcasts to members that hang do not take all that there are for others.
func TestManyMembersThatHangDoNotMakeBroadcastsBusy(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Fanout = 4*testkit.Patience, 64
	})
	w.broadcastsBeside(8, 4, 20)
}

// broadcastsBeside has so many broadcasts ask all the good members at once, while others hang.
func (w *world) broadcastsBeside(goods, hung, broadcasts int) {
	t := w.t
	t.Helper()
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	var asked atomic.Int64
	good := w.service(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(rw, "here")
	})
	hangs := w.service(func(_ http.ResponseWriter, r *http.Request) { <-release })
	for i := range goods + hung {
		m := routing.Member{ID: fmt.Sprintf("n%d", i), Address: good}
		if i >= goods {
			m.Address = hangs
		}
		w.table.members = append(w.table.members, m)
	}
	answers := make(chan answer)
	for range broadcasts {
		go func() { answers <- w.do("GET", "/*/", "") }()
	}
	defer func() {
		if t.Failed() {
			t.Logf("%d of %d requests have come", asked.Load(), goods*broadcasts)
		}
	}()
	testkit.Eventually(t, "all others have been asked", func() bool {
		return asked.Load() == int64(goods*broadcasts)
	})
	end()
	for range broadcasts {
		if a := <-answers; a.StatusCode != http.StatusOK || len(gathered(t, a).Answers) != goods+
			hung {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
}

func TestABroadcastDoesNotMindAnOfferOfAnotherHTTP(t *testing.T) {
	w := newWorld(t)
	var got http.Header
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(_ http.ResponseWriter,
		r *http.Request) {
		got = r.Header
	})}}
	for _, c := range []struct {
		upgrade, connection string
		want                int
	}{
		{"h2c", "Upgrade, HTTP2-Settings", 200}, {"TLS/1.3", "Upgrade", 200},
		{"websocket", "Upgrade", 400},
		// what a proxy has left of another's wish: without its name in Connection it is none
		{"websocket", "keep-alive", 200},
	} {
		conn, in := w.dial()
		fmt.Fprintf(conn,
			"GET /*/ HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nUpgrade: %s\r\n"+
				"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			c.connection, c.upgrade)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != c.want {
			t.Errorf("%v: %v %v", c, resp, err)
		}
		if got.Get("Upgrade")+got.Get("Http2-Settings") != "" {
			t.Errorf("%v arrived: %v", c, got)
		}
	}
}

func TestAMemberThatTakesNothingOfABodyIsHeldToTheTimeout(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Idle = 300*time.Millisecond, 20*testkit.Patience
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // nobody accepts: the kernel takes what its buffers hold
	w.table.set("a", routing.Location{Member: "n1", Address: ln.Addr().String(), Token: 1})
	w.table.members = []routing.Member{{ID: "n1", Address: ln.Addr().String()}}
	conn, in := w.dial()
	const size = 64 << 20
	fmt.Fprintf(conn, "POST /a/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, strings.NewReader(strings.Repeat("x", size)))
	}()
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusGatewayTimeout ||
		resp.Header.Get(dispatch.HeaderReason) != dispatch.ReasonTimeout {
		t.Errorf("%v %v", resp, err)
	}
	conn.Close()
	<-sent
	testkit.Eventually(t, "its place is free", func() bool {
		all, to := w.d.InFlight("n1")
		return all+to == 0
	})
}

func TestAnAnswerBeforeTheEndOfTheBodyArrivesAtOnce(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		// this one does not wait for the body either
		_ = http.NewResponseController(rw).EnableFullDuplex()
		// what is left of the body is not read as the next request
		rw.Header().Set("Connection", "close")
		rw.WriteHeader(http.StatusUnauthorized)
		_ = http.NewResponseController(rw).Flush()
	})
	for _, path := range []string{"/a/", "/unknown/", "/"} {
		conn, in := w.dial()
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience / 3))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want := map[string]int{"/a/": 401}[path]; want != 0 && resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
		if !resp.Close {
			t.Errorf("%s: what is left of the body could be taken for a request", path)
		}
	}
	testkit.Eventually(t, "its places are free", func() bool {
		all, to := w.d.InFlight("n1")
		return all+to == 0
	})
}

func TestWhatATrustedProxySaysOfTheClientArrives(t *testing.T) {
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		want    map[string]string
	}{
		"trusted": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, map[string]string{
			"X-Forwarded-For": "[6.6.6.6, 127.0.0.1]", "X-Forwarded-Proto": "[https]",
			"X-Forwarded-Host": "[public.example]", "X-Forwarded-Port": "[443]",
			"X-Real-Ip": "[6.6.6.6]", "Forwarded": "[for=6.6.6.6]",
		}},
		"a stranger": {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, map[string]string{
			"X-Forwarded-For": "[127.0.0.1]", "X-Forwarded-Proto": "[http]",
			"X-Forwarded-Host": "[front]", "X-Forwarded-Port": "[]", "X-Real-Ip": "[]",
			"Forwarded": "[]",
		}},
	} {
		w := newWorld(t, func(cfg *dispatch.Config) { cfg.Trusted = c.trusted })
		got := make(chan http.Header, 2)
		echo := func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }
		w.owner("a", "n1", 1, echo)
		w.table.members = []routing.Member{{ID: "n1", Address: w.service(echo)}}
		for _, path := range []string{"/a/", "/*/"} {
			conn, in := w.dial()
			fmt.Fprintf(conn,
				"GET %s HTTP/1.1\r\nHost: front\r\nX-Forwarded-For: "+
					"6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: "+
					"public.example\r\nX-Forwarded-Port: 443\r\nX-Real-IP: "+
					"6.6.6.6\r\nX-Forwarded_User: root\r\nForwarded: for=6.6.6.6\r\n\r\n",
				path)
			if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}
			h := <-got
			for header, want := range c.want {
				if fmt.Sprint(h.Values(header)) != want {
					t.Errorf("%s, %s: %s is %q, want %s", name, path, header, h.Values(header),
						want)
				}
			}
			for header := range h {
				if strings.Contains(header, "_") {
					t.Errorf("%s, %s: %s arrived", name, path, header)
				}
			}
		}
	}
}

// A library for WebSockets refuses a page whose origin is not the host that was asked for.
func TestTheHostThatTheClientAskedForArrives(t *testing.T) {
	w := newWorld(t)
	got := make(chan string, 2)
	echo := func(_ http.ResponseWriter, r *http.Request) { got <- r.Host }
	w.owner("a", "n1", 1, echo)
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(echo)}}
	for _, path := range []string{"/a/", "/*/"} {
		conn, in := w.dial()
		fmt.Fprintf(conn,
			"GET %s HTTP/1.1\r\nHost: app.example:8080\r\nOrigin: http://app.example:8080\r\n\r\n",
			path)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		if host := <-got; host != "app.example:8080" {
			t.Errorf("%s: the service was asked for %q", path, host)
		}
	}
}

func TestHTTP2WithoutTLSIsRefusedByItsName(t *testing.T) {
	w := newWorld(t)
	conn, in := w.dial()
	fmt.Fprint(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusHTTPVersionNotSupported ||
		resp.Header.Get(dispatch.HeaderReason) != dispatch.ReasonVersion {
		t.Errorf("%v %v", resp, err)
	}
}

func TestUpgradedConnectionsAndEventStreamsTakeNoPlacesOfRequests(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.InFlight, c.PerMember, c.Streams, c.StreamsPerMember = 4, 2, 8, 6
	})
	w.owner("socket", "n1", 1, echo(t))
	w.owner("events", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "here") })
	open := func(i int) (int, string) {
		conn, in := w.dial()
		if i%2 == 0 {
			fmt.Fprint(conn,
				"GET /socket/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		} else {
			fmt.Fprint(conn, "GET /events/ HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get(dispatch.HeaderReason)
	}
	for i := range 6 {
		if status, reason := open(i); status != 101-i%2*101+i%2*200 {
			t.Errorf("stream %d: %d %s", i, status, reason)
		}
		if a := w.do("GET", "/a/", ""); a.body != "here" {
			t.Fatalf("beside %d streams: %s %s", i+1, a.Status, a.body)
		}
	}
	for i := range 2 {
		if status, reason := open(i); status != 503 || reason != dispatch.ReasonBusy {
			t.Errorf("one more than the limit: %d %s", status, reason)
		}
	}
	// The service has begun to answer: whoever sends this once more has it carried out twice.
	if a := w.do("POST", "/events/", "x"); a.StatusCode != 502 ||
		a.Header.Get(dispatch.HeaderReason) != dispatch.ReasonLost ||
		a.Header.Get("Retry-After") != "" || !strings.Contains(a.body, "carried out") {
		t.Errorf("one that must not be repeated: %s %v %s", a.Status, a.Header, a.body)
	}
	if a := w.do("POST", "/events/", "x", "Idempotency-Key", "1"); a.StatusCode != 503 {
		t.Errorf("one that may be repeated: %s %v %s", a.Status, a.Header, a.body)
	}
	if a := w.do("GET", "/a/", ""); a.body != "here" {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

func TestAPathThatLeavesItsItemIsRefused(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, r.RequestURI)
	})
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(http.ResponseWriter,
		*http.Request) {
	})}}
	for path, want := range map[string]int{
		"/a/../../x": 400, "/a/../b/x": 400, "/a/..": 400, "/a/x/../../b": 400, "/a/%2e%2e/b": 400,
		"/a/.%2E/b": 400, "/a/%2e%2e%2fb": 400, "/a/..%5cb": 400,
		"/a/..;x=y/b": 400, "/a/x/..;/..;/b": 400, "/a/./../b": 400, "/a//../b": 400,
		"/*/../b": 400, "/../a/x": 400, "/%2e%2e/x": 400,
		// RFC 3986 knows one separator, and others know more: by whichever the service reads
		"/a/x%2Fy/../../b": 400, "/a/x%5Cy/../../b": 400, `/a/x\y/../../b`: 400,
		"/a/%2Fy%2fz/../../b": 400, "/*/x%2Fy/../../b": 400, "/a/x%2F../../b": 400,
		// by one after the other, as a proxy of the service's and the service
		"/a/x%2Fy/../..%2Fb": 400, `/a/..%2F..%5Cx\y/../b`: 400, "/a/;%2Fx/../b": 400,
		"/a/x%2Fy/../z": 200, "/a/x%2Fy/z/../..": 200, "/a/x%2F../y": 200, "/a/x%5Cy/z": 200,
		"/a/x/..": 200, "/a/x/../y": 200, "/a/...": 200, "/a/x..y/..z": 200, "/a/.": 200,
		"/*/x/../y": 200, "/a/?q=/../..": 200,
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
	status := http.StatusBadGateway
	page := w.service(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(dispatch.HeaderReason, dispatch.ReasonNoAddress)
		http.Error(rw, "this is the page of coordd", status)
	})
	w.table.set("a", routing.Location{Member: "n1", Address: page, Token: 1})
	w.refused(w.do("GET", "/a/", ""), 502, dispatch.ReasonNoAddress)
	status = http.StatusBadRequest // a page that speaks TLS
	w.refused(w.do("GET", "/a/", ""), 502, dispatch.ReasonNoAddress)
	w.table.members = []routing.Member{{ID: "n1", Address: page},
		{ID: "n2", Address: w.front.Listener.Addr().String()}}
	a := w.do("GET", "/*/", "")
	if g := gathered(t, a); a.StatusCode != 503 || !strings.Contains(g.Missing["n1"],
		"--address host:port") || !strings.Contains(g.Missing["n2"], "dispatcher") {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

func TestAClientThatDoesNotReadGivesItsPlaceBack(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Idle = 3*time.Second, 300*time.Millisecond
	})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 1<<20)
		for range 256 {
			if _, err := rw.Write(piece); err != nil {
				return
			}
		}
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	testkit.Eventually(t, "its place is free", func() bool {
		all, to := w.d.InFlight("n1")
		return all+to == 0
	})
}

// A client whose body cannot be read hears that it is at fault, and not that a connection was lost.
func TestABodyThatBreaksOffIsTheClientsFault(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout, c.Idle = 3*time.Second, time.Second })
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(rw, "whole")
		}
	})
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(http.ResponseWriter,
		*http.Request) {
	})}}
	for _, path := range []string{"/a/", "/*/"} {
		for what, c := range map[string]struct {
			body   string
			status int
			reason string
		}{
			"a bad chunk": {"Transfer-Encoding: chunked\r\n\r\n4\r\nbodyzz\r\n", 400,
				dispatch.ReasonBody},
			"a bad length": {"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nzz\r\n", 400,
				dispatch.ReasonBody},
			"it is too slow": {"Content-Length: 100\r\n\r\nbody", 408, dispatch.ReasonTimeout},
		} {
			conn, in := w.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s", path, c.body)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s %s: %v", path, what, err)
				continue
			}
			b, _ := io.ReadAll(resp.Body)
			w.refused(answer{resp, string(b)}, c.status, c.reason)
		}
	}
}
