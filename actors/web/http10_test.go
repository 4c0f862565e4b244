package web

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// A body without a length and without chunks is all that comes until the connection ends, to a
// client of HTTP/1.0: net/http takes it for none.
func TestAPutWhoseLengthIsNotSaidWritesNothing(t *testing.T) {
	p := serveConfigPage(t)
	c, in := p.dial()
	if _, err := io.WriteString(c,
		"PUT /config/k HTTP/1.0\r\nHost: localhost\r\n\r\nvalue"); err != nil {
		t.Fatal(err)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	resp, err := http.ReadResponse(in, nil)
	must(t, err)
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusLengthRequired {
		t.Errorf("%s %q", resp.Status, body)
	}
	if v, ok := p.in("k"); ok {
		t.Errorf("%q was written", v)
	}
	if status, _ := p.ask("PUT", "empty", ""); status != http.StatusNoContent {
		t.Errorf("an empty value: %d", status)
	}
}
