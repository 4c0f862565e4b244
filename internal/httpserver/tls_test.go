package httpserver_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
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
	address := start(t, httpserver.Config{Handler: hello, TLS: speaksTLS(t), ErrorLog: quiet})
	for _, offered := range [][]string{nil, {"h2", "http/1.1"}} {
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
