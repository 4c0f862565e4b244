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
	address := start(t, httpserver.Config{Pace: 200 * time.Millisecond,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 64<<20))
			over <- err
		})})
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
	address := start(t, httpserver.Config{Pace: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		})})
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
	address := start(t, httpserver.Config{Body: 200 * time.Millisecond,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			over <- err
		})})
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
	address := start(t, httpserver.Config{Body: 300 * time.Millisecond,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			paths <- r.URL.Path
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
		})})
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
	address := start(t, httpserver.Config{Body: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusForbidden)
		})})
	c := dial(t, address)
	_ = c.SetDeadline(time.Now().Add(patience / 2))
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
	if status, _ := c.answer(); status != http.StatusForbidden {
		t.Errorf("status %d before the body has come", status)
	}
}

// A long poll after a body outlasts the time that the body had.
func TestAHandlerMayTakeLongerThanItsBody(t *testing.T) {
	address := start(t, httpserver.Config{Body: 100 * time.Millisecond,
		Pace: 100 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
				t.Error("the request's context ended")
			case <-time.After(400 * time.Millisecond):
			}
			fmt.Fprint(w, "here")
		})})
	c := dial(t, address)
	for range 2 {
		c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
		if status, body := c.answer(); status != 200 || body != "here" {
			t.Errorf("%d %q", status, body)
		}
	}
}

func TestWithAllConnectionsTakenTheHealthIsStillAnswered(t *testing.T) {
	busy := make(chan struct{})
	entered := make(chan struct{}, 4)
	address := start(t, httpserver.Config{
		Conns:  4,
		Always: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/busy" {
				entered <- struct{}{}
				<-busy
			}
			fmt.Fprint(w, "here")
		}),
	})
	get := func(c *conn, path string) {
		c.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	var taken []*conn
	for range 4 {
		c := dial(t, address)
		get(c, "/busy")
		<-entered
		taken = append(taken, c)
	}
	for range 20 {
		c := dial(t, address)
		get(c, "/healthz")
		if status, _ := c.answer(); status != 200 {
			t.Errorf("its health: status %d", status)
		}
		if !c.ended() {
			t.Error("it keeps a connection beyond the limit")
		}
		c = dial(t, address)
		get(c, "/other")
		if status, body := c.answer(); status != 503 ||
			!strings.Contains(body, "all connections of this server are taken") {
			t.Errorf("another: status %d %q", status, body)
		}
		if !c.ended() {
			t.Error("it keeps a connection beyond the limit")
		}
	}
	close(busy)
	for _, c := range taken {
		if status, _ := c.answer(); status != 200 {
			t.Errorf("one that had a place: status %d", status)
		}
	}
	// Now all are idle, or about to be: new ones take their places.
	ended := make(chan bool, len(taken))
	for _, c := range taken {
		go func() { ended <- c.ended() }()
	}
	for left, end := len(taken), time.Now().Add(patience/2); left > 0; {
		if time.Now().After(end) {
			t.Errorf("%d connections that have been idle for longest keep their places", left)
			for _, c := range taken {
				c.Close()
			}
		}
		c := dial(t, address)
		get(c, "/other")
		c.answer()
		select {
		case <-ended:
			left--
		default:
		}
	}
}

// Whoever asks for the health and keeps back a body that nobody wants holds up nobody else who
// asks.
func TestTheHealthIsAnsweredBesideThoseWhoKeepABodyBack(t *testing.T) {
	busy := make(chan struct{})
	defer close(busy)
	entered := make(chan struct{}, 1)
	address := start(t, httpserver.Config{
		Conns: 1, Pace: patience, Body: patience,
		Always: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/busy" {
				entered <- struct{}{}
				<-busy
			}
			fmt.Fprint(w, "here")
		}),
	})
	dial(t, address).send("GET /busy HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	for i := range 3 * httpserver.SpareConns {
		c := dial(t, address)
		c.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
		if status, _ := c.answer(); status != 503 {
			t.Fatalf("the %dth who keeps a body back: status %d", i+1, status)
		}
		c = dial(t, address)
		c.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status, body := c.answer(); status != 200 || body != "here" {
			t.Fatalf("beside %d who keep a body back: status %d %q", i+1, status, body)
		}
	}
}

func TestConnectionsThatAskForNothingMakeRoom(t *testing.T) {
	address := start(t, httpserver.Config{Conns: 4, Header: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		})})
	for range 60 {
		dial(t, address).send("GET / HT")
	}
	status := 0
	for end := time.Now().Add(patience / 2); status != 200 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			status = resp.StatusCode
			resp.Body.Close()
		}
		c.Close()
	}
	if status != 200 {
		t.Error("sixty connections that ask for nothing keep everybody out")
	}
}

// Connections that come faster than the server lets go of them keep nobody from its health.
func TestACrowdThatConnectsAndAsksForNothingDoesNotHideTheHealth(t *testing.T) {
	address := start(t, httpserver.Config{
		Conns: 4, Header: patience,
		Always: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}),
	})
	for i := range 20 {
		c := dial(t, address)
		for range 4 + httpserver.SpareConns { // all of them younger than what is let go of
			dial(t, address).send("GET / HT")
		}
		late := dial(t, address)
		late.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status, _ := late.answer(); status != http.StatusOK {
			t.Fatalf("behind a crowd, the %dth: status %d", i+1, status)
		}
		if !c.ended() {
			t.Error("the first of the crowd keeps its place")
		}
	}
}

func TestARequestForANameThatIsNotTheServersIsRefused(t *testing.T) {
	address := start(t, httpserver.Config{
		Hosts: httpserver.NewHosts("--http-host", "n1.example:7070"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "secret")
		}),
	})
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
}
