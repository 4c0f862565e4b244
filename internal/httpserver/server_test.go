package httpserver_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// patience is for what has to happen, on a machine that does other things too.
const patience = 30 * time.Second

// start serves what c says on loopback and returns the address.
func start(t *testing.T, c httpserver.Config) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpserver.New(c)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// conn is a client's connection, on which a test writes what it likes.
type conn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dial(t *testing.T, address string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &conn{c, t, bufio.NewReader(c)}
}

func (c *conn) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer and returns its status; 0 when the connection ends without one.
func (c *conn) answer() (int, string) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			c.t.Errorf("no answer within %v", patience)
		}
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// ended waits until the server has closed the connection.
func (c *conn) ended() bool {
	_, err := io.Copy(io.Discard, c.in)
	e, ok := errors.AsType[net.Error](err)
	return !ok || !e.Timeout()
}

func TestAnAnswerThatNobodyReadsIsNotHeldForEver(t *testing.T) {
	over := make(chan error, 1)
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 64<<20))
			over <- err
		}), 200*time.Millisecond)})
	c := dial(t, address)
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-over:
		if err == nil {
			t.Error("64 MiB went to a client that does not read")
		}
	case <-time.After(patience):
		t.Fatal("the handler still waits for a client that does not read")
	}
	if !c.ended() {
		t.Error("the connection is still open")
	}
}

// A client that reads, however slowly against the whole, is not cut off.
func TestAnAnswerMayTakeLongerThanItsPaceWhenItIsRead(t *testing.T) {
	const size = 200 * httpserver.Piece // more than the sockets hold
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		}), time.Second)})
	c := dial(t, address)
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	begin, read := time.Now(), 0
	for buf := make([]byte, httpserver.Piece); ; time.Sleep(10 * time.Millisecond) {
		n, err := io.ReadFull(c.in, buf)
		if read += n; err != nil {
			break
		}
	}
	if read < size {
		t.Errorf("%d of %d bytes came in %v", read, size, time.Since(begin))
	}
}

func TestABodyThatDoesNotComeHoldsNothingForEver(t *testing.T) {
	over := make(chan error, 1)
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			over <- err
		}), 200*time.Millisecond)})
	c := dial(t, address)
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
	if err := <-over; err == nil {
		t.Error("half of a body was taken for the whole")
	}
	if !c.ended() {
		t.Error("the connection is still open")
	}
}

// What is left of a body that broke off is no request.
func TestTheRestOfABrokenBodyIsNotTakenForARequest(t *testing.T) {
	paths := make(chan string, 4)
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			paths <- r.URL.Path
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
		}), 300*time.Millisecond)})
	for name, body := range map[string]string{
		"a bad chunk": "Transfer-Encoding: chunked\r\n\r\nzz\r\nGET /smuggled " +
			"HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"it comes too late": "Content-Length: 60\r\n\r\n",
	} {
		c := dial(t, address)
		c.send("PUT /first HTTP/1.1\r\nHost: localhost\r\n" + body)
		if status, _ := c.answer(); status != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, status)
		}
		_, _ = io.WriteString(c, "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if !c.ended() {
			t.Errorf("%s: the connection is still open", name)
		}
		if first := <-paths; first != "/first" || len(paths) != 0 {
			t.Errorf("%s: %s was asked for, and %d more", name, first, len(paths))
		}
	}
}

func TestARefusalDoesNotWaitForTheBodyThatItRefuses(t *testing.T) {
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusForbidden)
		}), patience)})
	c := dial(t, address)
	_ = c.SetDeadline(time.Now().Add(patience / 2))
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
	if status, _ := c.answer(); status != http.StatusForbidden {
		t.Errorf("status %d before the body has come", status)
	}
}

// A long poll after a body outlasts the time that the body had.
func TestAHandlerMayTakeLongerThanItsBody(t *testing.T) {
	address := start(t, httpserver.Config{Handler: httpserver.Paced(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
				t.Error("the request's context ended")
			case <-time.After(400 * time.Millisecond):
			}
			fmt.Fprint(w, "here")
		}), 100*time.Millisecond)})
	c := dial(t, address)
	for range 2 {
		c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
		if status, body := c.answer(); status != 200 || body != "here" {
			t.Errorf("%d %q", status, body)
		}
	}
}

func TestOnlySoManyConnectionsAreServedAtOneTime(t *testing.T) {
	const conns = 3
	running, tooMany := make(chan struct{}, conns), atomic.Bool{}
	address := start(t, httpserver.Config{
		Conns: conns, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			select {
			case running <- struct{}{}:
			default:
				tooMany.Store(true)
				return
			}
			time.Sleep(time.Millisecond)
			<-running
		})})
	var all sync.WaitGroup
	for range 20 * conns {
		all.Go(func() {
			c := dial(t, address)
			defer c.Close()
			c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if status, _ := c.answer(); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
	all.Wait()
	if tooMany.Load() {
		t.Errorf("more than %d connections were served at one time", conns)
	}
}

func TestARequestForANameThatIsNotTheServersIsRefused(t *testing.T) {
	address := start(t, httpserver.Config{Handler: httpserver.NewHosts("--http-host",
		"n1.example:7070").Only(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "secret")
	}), http.Header{"X-Why": {"host"}})})
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example:7070": 403, "EVIL.example.": 403,
		"127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "xn1.example": 403,
		"0x7f.1":    403,
		"localhost": 200, "n1": 200, "devconsul:8500": 200, "LOCALHOST:7070": 200,
		"x.localhost": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "10.0.0.7:7070": 200,
		"[::1]": 200, "[::1]:7070": 200, "[fe80::1%25eth0]:1": 200,
		"n1.example": 200, "N1.Example:1": 200, "n1.example.": 200,
	} {
		c := dial(t, address)
		c.send("GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		status, body := c.answer()
		if status != want || (status == 403) != strings.Contains(body, "--http-host") ||
			strings.Contains(body, "secret") != (want == 200) {
			t.Errorf("Host %s: %d %q, want %d", host, status, body, want)
		}
	}
	c := dial(t, address)
	c.send("GET / HTTP/1.0\r\n\r\n")
	if status, _ := c.answer(); status != 200 {
		t.Errorf("without a Host: %d", status)
	}
	// net/http would answer this by itself.
	c = dial(t, address)
	c.send("OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil || resp.StatusCode != 403 || resp.Header.Get("X-Why") != "host" {
		t.Errorf("OPTIONS *: %v %v", resp, err)
	}
}
