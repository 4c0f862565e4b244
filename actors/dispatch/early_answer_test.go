package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// resetConn is one whose other end closes it with much of the body unread: what that has sent can
// be read still, and nothing can be written any more.
type resetConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *resetConn) Write(p []byte) (int, error) {
	if c.writes.Add(1) > 1 { // behind the head
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return c.Conn.Write(p)
}

// A service may refuse a large body by its head, and close the connection: what it has answered
// arrives, all of it. One that answers nothing is lost, and soon.
func TestAnAnswerArrivesThoughItsServiceClosesBehindIt(t *testing.T) {
	const size = 100_000
	for name, c := range map[string]struct {
		answer string
		status int
		body   int
	}{
		"with a body": {fmt.Sprintf("HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s", size,
			strings.Repeat("x", size)), 401, size},
		"until the end":  {"HTTP/1.1 401 Unauthorized\r\n\r\n" + strings.Repeat("x", size), 401, size},
		"without a body": {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 401, 0},
		"not at all":     {"", 502, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, dispatch.Config{})
				defer p.close()
				p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
				p.serve["n1:80"] = func(_ context.Context, conn net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
					for part := range strings.SplitAfterSeq(c.answer, "\r\n\r\n") {
						fmt.Fprint(conn, part)
						time.Sleep(10 * time.Millisecond)
					}
					if c.answer == "" {
						time.Sleep(time.Minute)
					}
				}
				p.d.DialWith(func(address string) net.Conn {
					near, far := net.Pipe()
					p.conns.Go(func() {
						defer far.Close()
						p.serve[address](p.ctx, far)
					})
					return &resetConn{Conn: near}
				})
				rec, began := httptest.NewRecorder(), time.Now()
				p.d.ServeHTTP(rec, httptest.NewRequest("POST", "/a/",
					strings.NewReader(strings.Repeat("x", 1<<20))))
				if rec.Code != c.status || c.body >= 0 && rec.Body.Len() != c.body {
					t.Errorf("%d, with %d bytes", rec.Code, rec.Body.Len())
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}
