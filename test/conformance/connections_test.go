package conformance_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/realconsul"
)

// maxConns is Consul's http_max_conns_per_client.
const maxConns = 200

// TestOneConnectionTooManyIsRefused: the limit is for each client address, so it has servers of its own. What is sent to a
// connection too many is compared byte by byte, and a place that was given up can be taken again.
func TestOneConnectionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	answers := map[string]string{}
	for name, start := range map[string]func(*testing.T) target{
		"real": func(t *testing.T) target { return targetOf(t, realconsul.Start(t, realconsul.Options{})) }, "port": embeddedOnPort,
	} {
		tg := start(t)
		// The client that started the server may have connections open.
		tg.transport.(*http.Transport).CloseIdleConnections()
		addr := strings.TrimPrefix(tg.base, "http://")
		dial := func() net.Conn {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		const request = "GET /v1/agent/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
		conns := make([]net.Conn, maxConns)
		for i := range conns {
			conns[i] = dial()
		}
		// A server that refuses says so without being asked. Both give up on telling after 10 ms, which a busy machine may
		// not let them have: then the connection is closed without a word, and the next try may hear one.
		refused := ""
		for deadline := time.Now().Add(10 * time.Second); refused == "" && time.Now().Before(deadline); {
			c := dial()
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			said, _ := io.ReadAll(c)
			c.Close()
			refused = string(said)
		}
		for _, c := range conns {
			c.Close()
		}
		free := ""
		for deadline := time.Now().Add(20 * time.Second); !strings.HasPrefix(free, "HTTP/1.1 200"); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no place is free again: %q", name, free)
			}
			c := dial()
			_, _ = io.WriteString(c, request)
			said, _ := io.ReadAll(c)
			c.Close()
			free = string(said)
		}
		if !strings.HasPrefix(refused, "HTTP/1.1 429") {
			t.Errorf("%s: the 201st connection was told %q", name, refused)
		}
		answers[name] = refused
	}
	if answers["real"] != answers["port"] {
		t.Errorf("real: %q\nport: %q", answers["real"], answers["port"])
	}
}
