package dispatch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// endsWith is a connection whose end is read as an error.
type endsWith struct {
	net.Conn
	err error
}

func (c endsWith) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = c.err
	}
	return n, err
}

// A connection that ends when it has just been taken has got nothing of the request: net/http sends
// that on the next one, with the body that it has not read.
func TestAConnectionThatEndsWhenItIsTakenLeavesTheBodyToTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		end error
		key string
	}{
		"closed": {io.EOF, "7"},
		"reset":  {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, dispatch.Config{})
				defer p.close()
				p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
				dials := 0
				var member net.Conn
				p.d.DialWith(func(string) net.Conn {
					near, far := net.Pipe()
					dials++
					member = far
					p.conns.Go(func() {
						defer far.Close()
						for in := bufio.NewReader(far); ; {
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							body, err := io.ReadAll(r.Body)
							if err != nil {
								return
							}
							fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s",
								len(body), body)
						}
					})
					return endsWith{near, c.end}
				})
				ask := func(taken func(httptrace.GotConnInfo)) {
					t.Helper()
					r := httptest.NewRequest("POST", "/a/", strings.NewReader("body"))
					if c.key != "" {
						r.Header.Set("Idempotency-Key", c.key)
					}
					r = r.WithContext(httptrace.WithClientTrace(r.Context(),
						&httptrace.ClientTrace{GotConn: taken}))
					rec := httptest.NewRecorder()
					p.d.ServeHTTP(rec, r)
					if rec.Code != http.StatusOK || rec.Body.String() != "body" {
						t.Errorf("%d %s", rec.Code, rec.Body)
					}
				}
				ask(func(httptrace.GotConnInfo) {})
				synctest.Wait()
				ask(func(got httptrace.GotConnInfo) {
					if got.Reused {
						_ = member.Close()
						time.Sleep(time.Millisecond) // until it is heard
					}
				})
				if dials != 2 {
					t.Errorf("%d connections", dials)
				}
			})
		})
	}
}

// Nothing is left that waits for a client: also where the connection was closed before the request
// began on it.
func TestARequestOnAClosedConnectionDoesNotWaitForItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, client := io.Pipe()
		body := dispatch.NewReplayBody(src)
		p := body.Reader()
		near, _ := net.Pipe()
		body.OnClosedConn(near)
		began := time.Now()
		defer client.Close()
		defer time.AfterFunc(time.Second, func() { _ = client.Close() }).Stop()
		if _, err := p.Read(make([]byte, 1)); err == nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What is said to be at hand stays so, whatever comes of the client until the next attempt begins.
func TestABodyThatCanBeSentAgainStaysSoUntilItIs(t *testing.T) {
	const first, more = dispatch.ReplayBytes - 4<<10, 8 << 10
	for name, end := range map[string]func(io.Closer){
		"the attempt before has ended": func(p io.Closer) { _ = p.Close() },
		"it ends later":                func(io.Closer) {}, // as where the service has said 421
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, client := io.Pipe()
				body := dispatch.NewReplayBody(src)
				p := body.Reader()
				go func() {
					for _, n := range []int{first, more, more} {
						time.Sleep(time.Second)
						_, _ = client.Write(make([]byte, n))
					}
					_ = client.Close()
				}()
				if _, err := io.ReadFull(p, make([]byte, first)); err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = p.Read(make([]byte, 1)) }()
				synctest.Wait()
				end(p)
				if !body.Replayable() {
					t.Fatal("it is not at hand")
				}
				time.Sleep(1500 * time.Millisecond)
				all, err := io.ReadAll(body.Reader())
				if err != nil || len(all) != first+2*more {
					t.Errorf("the next one gets %d bytes of it: %v", len(all), err)
				}
				if body.Replayable() {
					t.Error("all of it is kept")
				}
			})
		})
	}
}

// panics is a body as a host's middleware may make it.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("middleware") }

// The client is read in no handler's goroutine: there a panic would end the process.
func TestABodyThatPanicsEndsItsRequestAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{})
		defer p.close()
		p.owner("a", func(ctx context.Context) { <-ctx.Done() })
		p.owner("b", func(context.Context) {})
		rec := httptest.NewRecorder()
		p.d.ServeHTTP(rec, httptest.NewRequest("POST", "/a/", panics{}))
		const want = "the request's body broke off (panic: middleware)"
		if rec.Code != http.StatusBadRequest || !strings.HasPrefix(rec.Body.String(), want) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		next := p.ask("b", 1)
		synctest.Wait()
		if next.Code != http.StatusOK {
			t.Errorf("the next one: %d %s", next.Code, next.Body)
		}
	})
}
