package dispatch_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// It waits for a move like any request. Each end may say that it has no more to send, and still
// hear the other.
func TestAConnectionCanBeUpgraded(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Wait = 2 * testkit.Patience })
	w.table.set("a", routing.ErrMoving)
	conn, in := w.dial()
	fmt.Fprint(conn, toWebSocket("/a/socket"))
	w.underWay("it waits", 1)
	w.owner("a", "n1", 42, func(rw http.ResponseWriter, r *http.Request) {
		upgrade(t, rw, func(conn net.Conn, in io.Reader) {
			fmt.Fprintf(conn, "grant %s\n", r.Header.Get(dispatch.HeaderGrant))
			_, _ = io.Copy(conn, in)
			fmt.Fprint(conn, "that was all\n")
		})
	})
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get(dispatch.HeaderMember) != "n1" {
		t.Fatalf("%v %v", resp, err)
	}
	for _, line := range []string{"grant 42\n", "hello\n", "again\n"} {
		if line != "grant 42\n" {
			fmt.Fprint(conn, line)
		}
		if got, err := in.ReadString('\n'); err != nil || got != line {
			t.Fatalf("%q came back (%v), want %q", got, err, line)
		}
	}
	if _, to := w.d.InFlight("n1"); to != 1 {
		t.Errorf("%d requests under way to n1: an upgraded connection is one", to)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "that was all\n" {
		t.Errorf("behind its own end the client got %q, %v", rest, err)
	}
	conn.Close()
	w.idle("the upgraded connection's place is free")
}

func TestAnUpgradedConnectionThatIsSilentEnds(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) {
		c.Idle, c.Timeout = 300*time.Millisecond, 300*time.Millisecond
	})
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		upgrade(t, rw, func(_ net.Conn, in io.Reader) { _, _ = io.Copy(io.Discard, in) })
	})
	conn, in := w.dial()
	fmt.Fprint(conn, toWebSocket("/a/"))
	answers(t, in, http.StatusSwitchingProtocols)
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("the client got %q, %v", rest, err)
	}
	w.idle("its place is free")
}

// Lines that are for one connection end there: those of a switch of protocols, of hints, of an
// answer and of its trailers, with those that Connection names.
func TestLinesForOneConnectionArePassedOnInNoAnswer(t *testing.T) {
	const lines = "Connection: X-Nominated, keep-alive\r\nKeep-Alive: timeout=5\r\n" +
		"Proxy-Authenticate: Basic\r\nProxy-Connection: x\r\nX-Nominated: n\r\n" +
		"proxy-authentication-info: i\r\nCoordd-Reason: busy\r\nX-Plain: p\r\n"
	for name, c := range map[string]struct{ asked, got, want string }{
		"switch": {"Connection: Upgrade\r\nUpgrade: websocket\r\n",
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
				lines + "\r\n", "X-Plain: p"},
		"hints": {"Connection: close\r\n", "HTTP/1.1 103 Early Hints\r\n" + lines +
			"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Plain: q\r\n\r\nok", "X-Plain: q"},
		"answer": {"Connection: close\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines +
			"\r\nok", "X-Plain: p"},
		"announced trailers": {"Connection: close\r\n", "HTTP/1.1 200 OK\r\nTrailer: X-Plain, " +
			"Connection, Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + lines +
			"\r\n", "X-Plain: p"},
		"trailers": {"Connection: close\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" +
			"\r\n2\r\nok\r\n0\r\n" + lines + "\r\n", "X-Plain: p"},
	} {
		w := newWorld(t)
		w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, c.got)
		})
		conn, in := w.dial()
		fmt.Fprintf(conn, "GET /a/ HTTP/1.1\r\nHost: x\r\n%s\r\n", c.asked)
		all, _ := io.ReadAll(in)
		conn.Close()
		text := string(all)
		for _, word := range []string{"nominated", "keep-alive", "proxy-", "reason"} {
			if strings.Contains(strings.ToLower(text), word) {
				t.Errorf("%s: %s is passed on in\n%s", name, word, text)
			}
		}
		if strings.Count(text, c.want) != 1 || name == "switch" &&
			(!strings.Contains(text, "Connection: Upgrade") ||
				!strings.Contains(text, "Upgrade: websocket")) {
			t.Errorf("%s: %s", name, text)
		}
		w.idle("its places are free")
	}
}

// A service that goes on in another protocol than the one that was asked for is refused, and its
// connection ends: no limit would count it.
func TestAnUpgradeThatIsRefusedLeavesNoConnectionBehind(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes what nobody has
	const asked = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for _, c := range []struct{ asked, got string }{
		{asked, "Connection: Upgrade\r\nUpgrade: other\r\n"}, {"", asked}, {"", ""},
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
		answers(t, in, http.StatusBadGateway)
		if err := <-ended; err != nil {
			t.Errorf("asked %q, got %q: the service's connection has not ended: %v", c.asked,
				c.got, err)
		}
		w.idle("its places are free")
	}
}
