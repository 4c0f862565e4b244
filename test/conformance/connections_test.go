package conformance_test

import (
	"bufio"
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

// TestOneConnectionTooManyIsRefused: the limit is for each client address, so it has servers of its
// own. What is sent to a connection too many is compared byte by byte, and a place that was given
// up can be taken again.
func TestOneConnectionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	answers := map[string]string{}
	for name, start := range map[string]func(*testing.T) target{
		"real": func(t *testing.T) target {
			return targetOf(t, realconsul.Start(t, realconsul.Options{}))
		}, "port": embeddedOnPort,
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
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		// Held connections have been answered: so each of them counts. A server says to one too
		// many that it is refused without being asked, and gives up on telling after 10 ms: on a
		// busy machine it may be closed without a word.
		var held []net.Conn
		refused := ""
		for deadline := time.Now().Add(patience); refused == "" && len(held) <= maxConns &&
			time.Now().Before(deadline); {
			c := dial()
			defer c.Close()
			if len(held) >= maxConns-10 { // the harness may still have some open itself
				_ = c.SetReadDeadline(time.Now().Add(settle))
				said, _ := io.ReadAll(c)
				if refused = string(said); refused != "" {
					break
				}
				_ = c.SetReadDeadline(time.Now().Add(patience))
			}
			if _, err := io.WriteString(c,
				"GET /v1/agent/version HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				continue
			}
			if line, err := bufio.NewReader(c).ReadString('\n'); err == nil &&
				strings.Contains(line, " 200 ") {
				held = append(held, c)
			}
		}
		if !strings.HasPrefix(refused, "HTTP/1.1 429") {
			t.Errorf("%s: with %d connections held, another was told %q", name, len(held), refused)
		}
		answers[name] = refused
		for _, c := range held {
			c.Close()
		}
		again := tg.do(t.Context(), http.MethodGet, "/v1/agent/version", nil, "")
		for deadline := time.Now().Add(patience); again.status != http.StatusOK; again = tg.do(
			t.Context(), http.MethodGet, "/v1/agent/version", nil, "") {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no place is free again: %+v", name, again)
			}
		}
	}
	if answers["real"] != answers["port"] {
		t.Errorf("real: %q\nport: %q", answers["real"], answers["port"])
	}
}
