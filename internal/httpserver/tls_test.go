package httpserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/internal/testkit"
)

// speaksTLS is a configuration with a certificate.
func speaksTLS(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}
}

var quiet = log.New(io.Discard, "", 0)

// hello answers how it was asked.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.Proto)
})

// shake shakes hands with the server, whose certificate is not looked at.
func shake(t *testing.T, address string, cfg *tls.Config) (*conn, error) {
	t.Helper()
	c := dial(t, address)
	cfg.InsecureSkipVerify = true
	secure := tls.Client(c.Conn, cfg)
	return &conn{secure, t, bufio.NewReader(secure)}, secure.Handshake()
}

const get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

func TestOverTLSOnlyHTTP1IsSpoken(t *testing.T) {
	address := start(t, httpserver.Config{Handler: hello, TLS: speaksTLS(t), ErrorLog: quiet,
		WithoutTLS: httpserver.Refusal{Header: http.Header{"X-Why": {"tls"}}}})
	for _, offered := range [][]string{nil, {"h2", "http/1.1"}, {"http/1.0"}} {
		c, err := shake(t, address, &tls.Config{NextProtos: offered})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // on one connection
			c.send(get)
			if status, body := c.answer(); status != 200 || body != "HTTP/1.1" {
				t.Errorf("%v: %d %s", offered, status, body)
			}
		}
	}
	if _, err := shake(t, address, &tls.Config{NextProtos: []string{"h2"}}); err == nil {
		t.Error("HTTP/2 was agreed on")
	}
	if _, err := shake(t, address, &tls.Config{MaxVersion: tls.VersionTLS11,
		MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 was agreed on")
	}
}

// The text is for people. The header is for programs, such as a dispatcher.
func TestAClientWithoutTLSIsToldSo(t *testing.T) {
	address := start(t, httpserver.Config{Handler: hello, TLS: speaksTLS(t), ErrorLog: quiet,
		WithoutTLS: httpserver.Refusal{Header: http.Header{"X-Why": {"tls"}}}})
	for _, request := range []string{get, "DELETE /k HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"PUT /k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n" +
			strings.Repeat("x", 50000)} {
		c := dial(t, address)
		c.send(request)
		resp, err := http.ReadResponse(c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 400 || resp.Header.Get("X-Why") != "tls" ||
			!strings.Contains(string(body), "https://") {
			t.Errorf("%.10s: %s %v %s", request, resp.Status, resp.Header, body)
		}
	}
	c := dial(t, address)
	c.send("\x00\x01\x02 what is this\r\n\r\n")
	if status, body := c.answer(); status != 0 {
		t.Errorf("what is neither is answered: %d %s", status, body)
	}
}

// There is one place, and no more than Header for a handshake.
func TestAHandshakeThatDoesNotComeHoldsNoPlace(t *testing.T) {
	secure := speaksTLS(t)
	address := start(t, httpserver.Config{Handler: hello, TLS: secure, ErrorLog: quiet, Conns: 1,
		Header: 300 * time.Millisecond})
	for name, half := range map[string]string{
		"nothing":        "",
		"half a record":  "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03",
		"half a request": "GET / HT",
	} {
		c := dial(t, address)
		c.send(half)
		if !c.ended() {
			t.Errorf("%s: it holds its connection", name)
		}
	}
	// Its place is free a moment after its connection has ended.
	testkit.Eventually(t, "the next client has the place", func() bool {
		c, err := shake(t, address, &tls.Config{})
		if err != nil {
			return false
		}
		defer c.Close()
		c.send(get)
		status, _ := c.answer()
		return status == 200
	})
}

// counted counts what is written to a connection.
type counted struct {
	net.Conn
	bytes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return c.Conn.Write(p)
}

func TestAHandshakeHasABoundedSize(t *testing.T) {
	secure := speaksTLS(t)
	secure.ClientAuth = tls.RequireAnyClientCert
	address := start(t, httpserver.Config{Handler: hello, TLS: secure, ErrorLog: quiet})
	one := secure.Certificates[0].Certificate[0]
	bound := httpserver.HeaderBytes / len(one)
	passed, refused := 0, 0
	for _, n := range []int{1, bound - 5, bound - 4, bound - 3, bound - 2, bound - 1, bound,
		bound + 1, bound + 20, 2 * bound} {
		chain := tls.Certificate{PrivateKey: secure.Certificates[0].PrivateKey}
		for range n {
			chain.Certificate = append(chain.Certificate, one)
		}
		sent := &counted{Conn: dial(t, address)}
		c := tls.Client(sent, &tls.Config{InsecureSkipVerify: true,
			Certificates: []tls.Certificate{chain}})
		err := c.Handshake()
		bytes := sent.bytes
		// In TLS 1.3 the client is through before the server has looked.
		if err == nil {
			_, _ = io.WriteString(c, get)
			resp, bad := http.ReadResponse(bufio.NewReader(c), nil)
			if err = bad; err == nil {
				resp.Body.Close()
			}
		}
		if (err == nil) != (bytes <= httpserver.HeaderBytes) {
			t.Errorf("with %d certificates, %d bytes: %v", n, bytes, err)
		}
		if err == nil {
			passed++
		} else {
			refused++
		}
	}
	if passed < 2 || refused < 3 {
		t.Errorf("%d passed and %d were refused: the bound was not between them", passed, refused)
	}
}

// pipes is a listener of connections that hold nothing: a write waits until it is read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) Close() error {
	close(p)
	return nil
}

// A goodbye of TLS is a write: one that waits would keep the next client out, and the stop of the
// server waiting.
func TestAClientThatDoesNotReadHoldsNothingUpAtTheEndOfItsConnection(t *testing.T) {
	secure := speaksTLS(t)
	secure.SessionTicketsDisabled = true // these are sent behind the handshake
	synctest.Test(t, func(t *testing.T) {
		s := httpserver.New(httpserver.Config{Handler: hello, TLS: secure, ErrorLog: quiet,
			Conns: 1})
		ln, ended := make(pipes), make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		begin := time.Now()
		for range 3 {
			here, there := net.Pipe()
			defer here.Close()
			ln <- there
			plain := tls.Client(here, &tls.Config{InsecureSkipVerify: true})
			c := &conn{plain, t, bufio.NewReader(plain)}
			c.send(get)
			if status, _ := c.answer(); status != 200 {
				t.Fatal(status)
			}
			synctest.Wait() // idle, and nobody reads
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("a client that did not read kept the next one out for %v", took)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Shutdown(gone); err != nil || time.Since(begin) > time.Second {
			t.Errorf("it took %v to end it: %v", time.Since(begin), err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestAnAnswerOverTLSThatNobodyReadsEndsWithItsPace(t *testing.T) {
	secure := speaksTLS(t)
	secure.SessionTicketsDisabled = true
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan time.Time, 1)
		s := httpserver.New(httpserver.Config{Handler: hello, TLS: secure, ErrorLog: quiet,
			Conns: 1, Pace: time.Second, ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- time.Now()
				}
			}})
		ln, ended := make(pipes), make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		here, there := net.Pipe()
		defer here.Close()
		ln <- there
		begin := time.Now()
		if _, err := io.WriteString(tls.Client(here, &tls.Config{InsecureSkipVerify: true}),
			get); err != nil {
			t.Fatal(err)
		}
		if took := (<-closed).Sub(begin); took != time.Second {
			t.Errorf("its connection was held for %v", took)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
