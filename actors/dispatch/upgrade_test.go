package dispatch_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// A service that goes on in another protocol than the one that was asked for is refused, and its
// connection ends: no limit would count it.
func TestAnUpgradeThatIsRefusedLeavesNoConnectionBehind(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes what nobody has
	const connection = "Connection: Upgrade\r\n"
	for _, c := range []struct{ asked, got string }{
		{connection + "Upgrade: other, websocket\r\n", connection + "Upgrade: websocket\r\n"},
		{connection + "Upgrade: websocket\r\n", "Upgrade: websocket\r\n"},
		{"", connection + "Upgrade: websocket\r\n"},
		{"", ""},
	} {
		w := newWorld(t)
		ended := make(chan error, 1)
		w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
			conn, in, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\n%s\r\n", c.got)
			_ = conn.SetReadDeadline(time.Now().Add(testkit.Patience))
			_, err = io.Copy(io.Discard, in)
			ended <- err
		})
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\n%s\r\n", c.asked)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusBadGateway ||
			resp.Header.Get(dispatch.HeaderReason) != dispatch.ReasonLost {
			t.Errorf("asked %q, got %q: %v %v", c.asked, c.got, resp, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("asked %q, got %q: the service's connection has not ended: %v", c.asked,
				c.got, err)
		}
		conn.Close()
		testkit.Eventually(t, "its places are free", func() bool {
			all, to := w.d.InFlight("n1")
			return all+to == 0
		})
	}
}

// plainWriter is that of a middleware which knows nothing of upgrades.
type plainWriter struct{ http.ResponseWriter }

// Behind one that cannot be taken over nobody has the member's connection.
func TestAnUpgradeBehindAMiddlewareThatHidesItLeavesNoConnectionBehind(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes what nobody has
	w := newWorld(t)
	ended := make(chan error, 1)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		upgrade(t, rw, "echo", func(conn net.Conn, in io.Reader) {
			_ = conn.SetReadDeadline(time.Now().Add(testkit.Patience))
			_, err := io.Copy(io.Discard, in)
			ended <- err
		})
	})
	w.front.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.d.ServeHTTP(plainWriter{rw}, r)
	})
	w.refused(w.do("GET", "/a/", "", "Connection", "Upgrade", "Upgrade", "echo"), 502,
		dispatch.ReasonLost)
	if err := <-ended; err != nil {
		t.Errorf("the connection to the member has not ended: %v", err)
	}
	w.idle("its places are free")
}

// Each end of an upgraded connection may say that it has no more to send, and still hear the other.
func TestAnUpgradedConnectionCanBeHalfClosed(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		upgrade(t, rw, "count", func(conn net.Conn, in io.Reader) {
			n, _ := io.Copy(io.Discard, in) // until the client has sent everything
			fmt.Fprintf(conn, "%d bytes", n)
		})
	})
	conn, in := w.dial()
	fmt.Fprint(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: count\r\n\r\n")
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprint(conn, "hello")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(bufio.NewReader(in))
	if err != nil || string(all) != "5 bytes" {
		t.Errorf("behind its own end the client got %q, %v", all, err)
	}
}

// A client may send the first bytes of the other protocol before it has heard of the switch: they
// have come together with its request.
func TestWhatIsSentRightBehindAnUpgradesHeadArrives(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		echo(t)(rw, r)
	})
	for _, body := range []string{"\r\n", "Content-Length: 4\r\n\r\nbody",
		"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"} {
		conn, in := w.dial()
		fmt.Fprintf(conn,
			"POST /a/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n%shello\n",
			body)
		answers(t, in, http.StatusSwitchingProtocols)
		fmt.Fprint(conn, "world\n")
		_ = conn.(*net.TCPConn).CloseWrite()
		if all, err := io.ReadAll(in); err != nil || string(all) != "hello\nworld\n" {
			t.Errorf("behind %q: %q, %v", body, all, err)
		}
	}
}

// A member that has ended its side, or has died, sends nothing more by which a silence could be
// noticed: the client has to go as well, or say something now and then.
func TestAnUpgradedConnectionThatItsMemberHasLeftIsNotKeptForASilentClient(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Idle, c.Timeout = 300*time.Millisecond, 300*time.Millisecond
	})
	for name, leave := range map[string]func(net.Conn, io.Reader){
		"it has closed the connection": func(net.Conn, io.Reader) {},
		"it has no more to send": func(conn net.Conn, in io.Reader) {
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, in)
		},
	} {
		w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
			upgrade(t, rw, "short", leave)
		})
		conn, in := w.dial()
		fmt.Fprint(conn,
			"GET /a/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: short\r\n\r\n")
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%s: %v %v", name, resp, err)
		}
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("%s: the client got %q, %v", name, rest, err)
		}
		testkit.Eventually(t, name+": the place of the silent client is free", func() bool {
			all, to := w.d.InFlight("n1")
			return all+to == 0
		})
	}
}

// halves is a connection of which one direction may end.
type halves struct{ net.Conn }

func (halves) CloseWrite() error { return nil }

// Behind the end of what its member sends the client may go on for as long as it says something.
func TestAClientMayGoOnBehindTheEndOfWhatItsMemberSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := dispatch.UpgradedClient(halves{near}, time.Minute)
		defer c.Close()
		go func() {
			for range 10 {
				time.Sleep(50 * time.Second)
				fmt.Fprint(far, "x")
			}
		}()
		begin := time.Now()
		go func() {
			time.Sleep(100 * time.Second)
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		all, err := io.ReadAll(c)
		if took := time.Since(begin); len(all) != 10 || !errors.Is(err, os.ErrDeadlineExceeded) ||
			took != 10*50*time.Second+time.Minute {
			t.Errorf("%q, %v after %v", all, err, took)
		}
	})
}

// Nobody can upgrade a broadcast. A member that goes on in another protocol all the same has given
// no answer that would end: its connection ends, and the others are heard.
func TestABroadcastDoesNotWaitForAMemberThatGoesOnInAnotherProtocol(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes what nobody has
	w := newWorld(t)
	w.client.Timeout = testkit.Patience / 12 // the dispatcher's own is longer
	ended := make(chan error, 1)
	w.table.members = []routing.Member{
		{ID: "n1", Address: w.service(func(rw http.ResponseWriter, _ *http.Request) {
			upgrade(t, rw, "unasked", func(conn net.Conn, in io.Reader) {
				_ = conn.SetReadDeadline(time.Now().Add(testkit.Patience / 12))
				_, err := io.Copy(io.Discard, in)
				ended <- err
			})
		})},
		{ID: "n2", Address: w.service(func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, "here")
		})},
	}
	a := w.do("POST", "/*/", "x")
	g := gathered(t, a)
	if a.StatusCode != http.StatusMultiStatus || g.Answers["n2"].Body != "here" ||
		!strings.Contains(g.Missing["n1"], "protocol") ||
		!strings.Contains(g.Missing["n1"], "may have carried the request out") {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if err := <-ended; err != nil {
		t.Errorf("the connection to it has not ended: %v", err)
	}
}

// The proxy passes on no protocol whose name is not ASCII that prints: that is the client's fault.
func TestAnUpgradeToWhatIsNoNameIsRefused(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(http.ResponseWriter, *http.Request) { t.Error("it arrived") })
	w.table.members = []routing.Member{{ID: "n1", Address: nobody(t)}}
	for _, name := range []string{"w\u00e9b", "web\tsocket"} {
		for _, path := range []string{"/a/", "/unknown/", "/*/"} {
			conn, in := w.dial()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"+
				"Upgrade: %s\r\n\r\n", path, name)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			w.refused(answer{resp, string(body)}, 400, dispatch.ReasonPath)
		}
	}
}
