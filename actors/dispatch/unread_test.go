package dispatch_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// Answers may be small: a client asks for many of them on one connection and reads none, until its
// buffers are full. Where in an answer that happens is chance, so each part of one is tried: it is
// all that there is of it, or comes first.
func TestClientsThatReadNoSmallAnswersKeepNoPlaces(t *testing.T) {
	const each = "GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		member  http.HandlerFunc
	}{
		"a body": {fmt.Sprintf(each, "/a/"), func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}},
		"headers alone": {fmt.Sprintf(each, "/a/"), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}},
		"headers before the body": {fmt.Sprintf(each, "/a/"), func(w http.ResponseWriter,
			_ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(w, "here")
		}},
		"an early hint": {fmt.Sprintf(each, "/a/"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", strings.Repeat("x", 3000))
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		}},
		"a refusal": {fmt.Sprintf(each, "/unknown/"), nil},
		"a broadcast": {fmt.Sprintf(each, "/*/"), func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *dispatch.Config) {
				c.Timeout, c.Idle = time.Second, time.Second
			})
			if c.member != nil {
				w.owner("a", "n1", 1, c.member)
				loc, _ := w.table.Locate(t.Context(), "a")
				w.table.members = []routing.Member{{ID: "n1", Address: loc.Address}}
			}
			const clients = 8
			var open, came atomic.Int64
			front := httptest.NewUnstartedServer(w.d)
			front.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
				return ctx
			}
			front.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					open.Add(1)
					came.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			front.Start()
			defer front.Close()
			for range clients {
				conn, err := net.Dial("tcp", front.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				go func() {
					for many := []byte(strings.Repeat(c.request, 100)); ; {
						if _, err := conn.Write(many); err != nil {
							return
						}
					}
				}()
			}
			testkit.Eventually(t, "they are connected", func() bool {
				return came.Load() == clients
			})
			testkit.Eventually(t, "the connections that nobody reads from are closed", func() bool {
				return open.Load() == 0
			})
			w.idle("their places are free")
		})
	}
}
