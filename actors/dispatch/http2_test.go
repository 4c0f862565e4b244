package dispatch_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// pipeListener takes the connections that its dial makes.
type pipeListener struct {
	conns chan net.Conn
	close func()
	ended chan struct{}
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), ended: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.ended) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	l.conns <- far
	return near, nil
}

// restingWorld is a dispatcher behind net/http's own server with TLS, in virtual time. Item "a" is
// served by serve.
func restingWorld(t *testing.T, h2 bool, test func(ask func(*http.Request) (string, error)),
	serve http.HandlerFunc) {
	t.Helper()
	hostedWorld(t, h2, func(d http.Handler) http.Handler { return d }, test, serve)
}

// hostedWorld is one whose dispatcher is behind what its host has before it.
func hostedWorld(t *testing.T, h2 bool, host func(http.Handler) http.Handler,
	test func(ask func(*http.Request) (string, error)), serve http.HandlerFunc) {
	t.Helper()
	made := httptest.NewTLSServer(nil) // for its certificate
	made.Close()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, dispatch.Config{})
		defer p.close()
		p.table.set("a", routing.Location{Member: "n1", Address: "n1:80", Token: 1})
		p.serve["n1:80"] = func(_ context.Context, conn net.Conn) {
			l := newPipeListener()
			s := &http.Server{Handler: serve, ConnState: func(_ net.Conn, to http.ConnState) {
				if to == http.StateClosed || to == http.StateHijacked {
					_ = l.Close()
				}
			}}
			go func() { l.conns <- conn }()
			_ = s.Serve(l)
		}
		l := newPipeListener()
		s := &http.Server{Handler: host(p.d), ErrorLog: log.New(io.Discard, "", 0),
			TLSConfig: &tls.Config{Certificates: made.TLS.Certificates}}
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(!h2)
		s.Protocols.SetHTTP2(h2)
		p.conns.Go(func() { _ = s.ServeTLS(l, "", "") })
		transport := &http.Transport{DialContext: l.dial, ForceAttemptHTTP2: h2,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer func() {
			transport.CloseIdleConnections()
			// TLS waits for its goodbye to be taken, and Close would hold a lock meanwhile.
			time.Sleep(time.Minute)
			_ = s.Close()
		}()
		test(func(r *http.Request) (string, error) {
			resp, err := transport.RoundTrip(r)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			if (resp.ProtoMajor == 2) != h2 {
				t.Errorf("it was asked by %s", resp.Proto)
			}
			body, err := io.ReadAll(bufio.NewReader(resp.Body))
			return string(body), err
		})
	})
}

// eachProtocol runs a test by both protocols.
func eachProtocol(t *testing.T, test func(t *testing.T, h2 bool)) {
	for name, h2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) { test(t, h2) })
	}
}

// In HTTP/2 a deadline of net/http's is a timer that ends the stream while nothing is written, too.
func TestAServiceMaySendRarelyByEachProtocol(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		restingWorld(t, h2, func(ask func(*http.Request) (string, error)) {
			r, _ := http.NewRequest("GET", "https://x/a/", nil)
			if body, err := ask(r); err != nil || body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
				t.Errorf("%q, %v", body, err)
			}
		}, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(rw, "data: %d\n\n", i)
				_ = http.NewResponseController(rw).Flush()
				time.Sleep(4 * time.Minute)
			}
		})
	})
}

// Nobody waits for the client while the service takes none of its body.
func TestAServiceThatAnswersMayTakeTheBodyRarelyByEachProtocol(t *testing.T) {
	const size = 8 << 20 // more than the server takes in for one stream
	eachProtocol(t, func(t *testing.T, h2 bool) {
		restingWorld(t, h2, func(ask func(*http.Request) (string, error)) {
			r, _ := http.NewRequest("POST", "https://x/a/",
				strings.NewReader(strings.Repeat("x", size)))
			if body, err := ask(r); err != nil || body != fmt.Sprintf("....%d <nil>", size) {
				t.Errorf("%q, %v", body, err)
			}
		}, func(rw http.ResponseWriter, r *http.Request) {
			ctrl := http.NewResponseController(rw)
			_ = ctrl.EnableFullDuplex()
			first, _ := io.CopyN(io.Discard, r.Body, size/2)
			for range 4 {
				fmt.Fprint(rw, ".")
				_ = ctrl.Flush()
				time.Sleep(4 * time.Minute)
			}
			rest, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(rw, first+rest, err)
		})
	})
}

// A read of the body may be under way in the transport when the handler has returned: from then on
// its connection is the server's, whose HTTP/2 has nothing in its place.
func TestAnEarlyAnswerInHTTP2LeavesTheClientsConnectionAlone(t *testing.T) {
	restingWorld(t, true, func(ask func(*http.Request) (string, error)) {
		for range 20 {
			body, more := io.Pipe()
			r, _ := http.NewRequest("POST", "https://x/a/", body)
			go func() { _, _ = io.WriteString(more, strings.Repeat("x", 1<<17)) }()
			if answer, err := ask(r); err != nil || answer != "who are you?" {
				t.Errorf("%q, %v", answer, err)
			}
			_ = more.Close()
			time.Sleep(time.Minute)
		}
	}, func(rw http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex() // else it waits for the body
		rw.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(rw, "who are you?")
	})
}

// Nor is an answer that comes before its body has ended the last of the connection: other requests
// are on that.
func TestAnEarlyAnswerInHTTP2IsNotTheLastOfItsConnection(t *testing.T) {
	w := newWorld(t)
	w.owner("a", "n1", 1, func(rw http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex() // else it waits for the body
		rw.WriteHeader(http.StatusUnauthorized)
	})
	var conns atomic.Int64
	front := httptest.NewUnstartedServer(w.d)
	front.EnableHTTP2 = true
	front.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	front.StartTLS()
	defer front.Close()
	for path, status := range map[string]int{"/a/": 401, "/b/": 404, "/a/../..": 400} {
		for range 5 {
			body, more := io.Pipe()
			go func() { _, _ = io.WriteString(more, "body") }()
			resp, err := front.Client().Post(front.URL+path, "", body)
			if err != nil {
				t.Fatal(err)
			}
			if _ = resp.Body.Close(); resp.StatusCode != status || resp.ProtoMajor != 2 {
				t.Errorf("%s: %s by %s", path, resp.Status, resp.Proto)
			}
			_ = more.Close()
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("15 requests took %d connections", n)
	}
}
