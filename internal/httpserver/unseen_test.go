package httpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// net/http answers "OPTIONS *" itself, past the server's handler and its limits, unless it is told
// not to.
func TestNoRequestGoesPastTheLimits(t *testing.T) {
	const each = 300 * time.Millisecond
	address := start(t, httpserver.Config{
		Conns: 2, Body: each, Pace: each, Hosts: httpserver.NewHosts("--http-host"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}),
	})
	c := dial(t, address)
	c.send("OPTIONS * HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
	if status, _ := c.answer(); status != http.StatusForbidden {
		t.Errorf("OPTIONS * for a name that is not the server's: status %d", status)
	}
	// More than there are places and spare ones.
	for range 2 + httpserver.SpareConns {
		dial(t, address).send(
			"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
	}
	for end := time.Now().Add(patience / 2); ; time.Sleep(each / 10) {
		c := dial(t, address)
		_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if status, _ := c.answer(); status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatal("those who ask OPTIONS * with a body that never comes keep everybody out")
		}
	}
}

// A handler that paces its clients itself does not see those that are refused before it.
func TestARefusalForItsNameHoldsNoConnection(t *testing.T) {
	address := start(t, httpserver.Config{
		Conns: 3, Hosts: httpserver.NewHosts("--route-host"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "here")
		}),
	})
	const half = "PUT / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\nhalf"
	var held []*conn
	for range 2 {
		c := dial(t, address)
		c.send(half)
		held = append(held, c)
	}
	for _, c := range held {
		_ = c.SetDeadline(time.Now().Add(patience / 2))
		if status, _ := c.answer(); status != http.StatusForbidden {
			t.Errorf("status %d before the body has come", status)
		}
		if !c.ended() {
			t.Error("the connection is still open")
		}
	}
	c := dial(t, address)
	c.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if status, _ := c.answer(); status != http.StatusForbidden {
		t.Errorf("without a body: status %d", status)
	}
	if status, _ := c.answer(); status != http.StatusOK {
		t.Errorf("the next request of that connection: status %d", status)
	}
}

// net/http refuses an expectation that it does not know before any handler sees the request.
func TestAnExpectationThatIsNotMetHoldsNoConnection(t *testing.T) {
	over := make(chan error, 1)
	address := start(t, httpserver.Config{
		Header: 300 * time.Millisecond,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				select {
				case <-r.Context().Done():
					over <- r.Context().Err()
				case <-time.After(3 * time.Second):
					over <- nil
				}
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}),
	})
	c := dial(t, address)
	_ = c.SetDeadline(time.Now().Add(patience / 2))
	c.send(
		"PUT / HTTP/1.1\r\nHost: localhost\r\nExpect: nonsense\r\nContent-Length: 100\r\n\r\nhalf")
	if status, _ := c.answer(); status != http.StatusExpectationFailed {
		t.Errorf("status %d", status)
	}
	if !c.ended() {
		t.Error("the connection is still open")
	}
	// What bounds that one bounds no handler.
	c = dial(t, address)
	c.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err := <-over; err != nil {
		t.Errorf("a request that takes long: %v", err)
	}
	c = dial(t, address)
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nhalf")
	time.Sleep(2 * time.Second) // longer than the headers may take
	c.send("half")
	if status, _ := c.answer(); status != http.StatusOK {
		t.Errorf("a body whose time is the handler's: status %d", status)
	}
}
