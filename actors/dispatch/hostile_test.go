package dispatch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// dial opens a connection to the dispatcher that speaks what the test writes.
func (w *world) dial() (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	return conn, bufio.NewReader(conn)
}

// A service that went on in HTTP/2 would take requests from the client past the dispatcher, with
// any token.
func TestAnUpgradeToAnotherHTTPIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	var got http.Header
	w.owner("a", "n1", 42, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for _, protocol := range []string{"h2c", "H2C", "HTTP/2.0", "TLS/1.3", "websocket, h2c"} {
		conn, in := w.dial()
		fmt.Fprintf(conn,
			"GET /a/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+
				"%s\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			protocol)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v %v", protocol, resp, err)
		}
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			if got.Get(name) != "" {
				t.Errorf("%s: the service got %s: %s", protocol, name, got.Get(name))
			}
		}
	}
}

func TestWhatAClientForgesInTrailersAndRoutesDoesNotArrive(t *testing.T) {
	w := newWorld(t)
	var got *http.Request
	w.owner("a", "n1", 42, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r
	})
	conn, in := w.dial()
	fmt.Fprint(conn,
		"POST /a/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Coordd-Token\r\n"+
			"Coordd-Route: junk, 0123456789abcdef, <x>\r\nX_Forwarded_For: "+
			"6.6.6.6\r\nX-Forwarded_Host: h\r\n\r\n1\r\nx\r\n0\r\nCoordd-Token: 99\r\n\r\n")
	answers(t, in, 200)
	if len(got.Trailer) != 0 || fmt.Sprint(got.Header[dispatch.HeaderToken]) != "[42]" {
		t.Errorf("trailers %v, headers %v", got.Trailer, got.Header)
	}
	route := got.Header.Values("Coordd-Route")
	if len(route) != 2 || route[0] != "0123456789abcdef" || len(route[1]) != 16 {
		t.Errorf("the route is %q: what the client invented, the other dispatcher, this one", route)
	}
	for name := range got.Header {
		if strings.Contains(name, "_") {
			t.Errorf("%s arrived", name)
		}
	}
}

func TestATunnelCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 42, func(http.ResponseWriter, *http.Request) { t.Error("it arrived") })
	for _, target := range []string{"/a/x", "elsewhere.test:80"} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusMethodNotAllowed ||
			resp.Header.Get(dispatch.HeaderReason) == "" {
			t.Errorf("%s: %v %v", target, resp, err)
		}
	}
}

// slowLocator does not know where anything is, and takes its time to find out.
type slowLocator struct{ *table }

func (l slowLocator) Locate(ctx context.Context, item string) (routing.Location, error) {
	if loc, err := l.table.Locate(ctx, item); err == nil {
		return loc, nil
	}
	<-ctx.Done()
	return routing.Location{}, fmt.Errorf("item %q %w: %w", item, routing.ErrNotReady, ctx.Err())
}

func (l slowLocator) Await(ctx context.Context, item string) (routing.Location, error) {
	return l.Locate(ctx, item)
}

func TestALocatorThatKeepsSilentIsNotWaitedForForEver(t *testing.T) {
	for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
		w := newWorld(t, func(c *dispatch.Config) {
			c.Wait = wait
			c.Locator = slowLocator{c.Locator.(*table)}
		})
		w.refused(w.do("GET", "/a/", ""), 503, dispatch.ReasonNotReady)
	}
}

func TestThoseWhoseItemHasToBeLookedUpLeaveRoomForOthers(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Locator = slowLocator{c.Locator.(*table)}
		c.InFlight, c.PerMember, c.Wait = 8, 4, 2*testkit.Patience
	})
	w.owner("a", "n1", 1, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	for i := range 6 {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/unknown-%d/",
				w.front.URL, i), nil)
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
	cancel()
	for range 2 {
		<-ended
	}
}

func TestAMisdirectedAnswerThatDoesNotEndKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = testkit.Patience })
	second := w.service(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "here") })
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		w.table.set("a", routing.Location{Member: "n2", Address: second, Token: 2})
		rw.WriteHeader(http.StatusMisdirectedRequest)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	if a := w.do("POST", "/a/", "x"); a.body != "here" {
		t.Errorf("%s %q", a.Status, a.body)
	}
}

func TestAnAnswerOfKnownLengthIsStreamedAsItComes(t *testing.T) {
	w := newWorld(t)
	more := make(chan struct{})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "10")
		fmt.Fprint(rw, "first")
		_ = http.NewResponseController(rw).Flush()
		<-more
		fmt.Fprint(rw, "again")
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		close(more)
		t.Fatalf("its first half is held back: %v", err)
	}
	half := make([]byte, 5)
	_, err = io.ReadFull(resp.Body, half)
	close(more)
	if rest, bad := io.ReadAll(resp.Body); err != nil || bad != nil ||
		string(half)+string(rest) != "firstagain" {
		t.Errorf("%q %q, %v %v", half, rest, err, bad)
	}
}

// The server takes what is left of a body off the connection, and would wait for it for ever.
func TestABodyThatNobodyWantsDoesNotHoldItsConnectionForEver(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Idle = 100*time.Millisecond, 200*time.Millisecond
	})
	w.owner("a", "n1", 1, func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"/", "/unknown/", "/a/"} {
		conn, in := w.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", path)
		_, err := io.Copy(io.Discard, in)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			t.Errorf("%s: the connection is still open", path)
		}
	}
}

func TestABroadcastsBodyHasToBeHereInTime(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Timeout, c.Idle = 200*time.Millisecond, time.Hour
	})
	w.table.members = []routing.Member{{ID: "n1", Address: nobody(t)}}
	conn, in := w.dial()
	fmt.Fprint(conn, "POST /*/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
	stop := make(chan struct{})
	fed := make(chan struct{})
	go func() { // never silent for long
		defer close(fed)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		}
	}()
	resp, err := http.ReadResponse(in, nil)
	close(stop)
	<-fed
	if err != nil || resp.StatusCode != http.StatusRequestTimeout ||
		resp.Header.Get(dispatch.HeaderReason) != dispatch.ReasonTimeout {
		t.Errorf("%v %v", resp, err)
	}
}

// After the end of a handler the server uses the body's buffer for the next connection.
func TestNothingIsReadFromAClientWhoseRequestIsOver(t *testing.T) {
	src := &countingReader{}
	body := dispatch.NewReplayBody(src)
	p := body.Reader()
	if _, err := p.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	body.Close(func() { t.Error("nothing is read") })
	for _, p := range []io.Reader{p, body.Reader()} {
		if n, err := p.Read(make([]byte, 100)); n != 0 || err == nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
	if src.reads != 1 {
		t.Errorf("the client was read from %d times", src.reads)
	}
}

type countingReader struct{ reads int }

func (r *countingReader) Read(b []byte) (int, error) { r.reads++; return len(b), nil }

// An upgraded connection whose client takes nothing would keep its place for as long as the client
// likes.
func TestAnUpgradedConnectionOfAClientThatTakesNothingEnds(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Idle, c.Timeout = 300*time.Millisecond, 3*time.Second
	})
	w.owner("a", "n1", 42, func(rw http.ResponseWriter, _ *http.Request) {
		upgrade(t, rw, "flood", func(conn net.Conn, _ io.Reader) {
			var err error
			for piece := make([]byte, 64<<10); err == nil; { // until the dispatcher hangs up
				_, err = conn.Write(piece)
			}
		})
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: flood\r\n\r\n")
	answers(t, in, 101)
	w.idle("the place of the client that takes nothing is free")
}

func TestARefusalShowsNothingOfARecordThatATerminalObeys(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = -1 })
	w.table.set("a", routing.Location{Member: "m1", Token: 5,
		Address: "a\x1bc\nm2 is the owner\u009b" + strings.Repeat("x", 100_000) + ":80"})
	a := w.do("GET", "/a/", "")
	w.refused(a, 502, dispatch.ReasonUnreachable)
	if len(a.body) > 10_000 ||
		strings.ContainsAny(strings.TrimSuffix(a.body, "\n"), "\x1b\n\u009b") {
		t.Errorf("the answer of %d bytes begins with %.300q", len(a.body), a.body)
	}
}
