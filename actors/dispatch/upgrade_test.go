package dispatch_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
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
