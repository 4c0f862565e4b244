package devconsul_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// serve runs the server on a port until the test stops it with the function returned, which tells
// how long that took.
func serve(t *testing.T, s *devconsul.Server) (addr string, stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	return ln.Addr().String(), func() time.Duration {
		start := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		return time.Since(start)
	}
}

// dial returns a client with a transport of its own.
func dial(t *testing.T, addr string) *api.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c, err := api.NewClient(&api.Config{Address: addr, Scheme: "http",
		HttpClient: &http.Client{Transport: tr}})
	must(t, err)
	return c
}

func TestPortStopsWithinASecondWithLongPollsOpen(t *testing.T) {
	s := devconsul.New(devconsul.Config{})
	defer s.Close()
	addr, stop := serve(t, s)
	c := dial(t, addr)
	if _, err := c.KV().Put(&api.KVPair{Key: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	p, _, err := c.KV().Get("a", nil)
	must(t, err)
	const polls = 20
	ended := make(chan error)
	for range polls {
		go func() {
			_, _, err := c.KV().Get("a", &api.QueryOptions{WaitIndex: p.ModifyIndex})
			ended <- err
		}()
	}
	for s.Blocked() < polls {
		time.Sleep(time.Millisecond)
	}
	if d := stop(); d > time.Second {
		t.Errorf("stopping took %v", d)
	}
	for range polls {
		if err := <-ended; err == nil {
			t.Error("a poll that was cut off reads as an answer")
		}
	}
}

func TestClientThatHangsUpEndsItsBlockingQuery(t *testing.T) {
	s := devconsul.New(devconsul.Config{})
	defer s.Close()
	addr, stop := serve(t, s)
	defer stop()
	c := dial(t, addr)
	if _, err := c.KV().Put(&api.KVPair{Key: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	p, _, err := c.KV().Get("a", nil)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, _, err := c.KV().Get("a", (&api.QueryOptions{WaitIndex: p.ModifyIndex}).WithContext(ctx))
		ended <- err
	}()
	for s.Blocked() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	for s.Blocked() > 0 {
		time.Sleep(time.Millisecond)
	}
}
