package conformance_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/test/realconsul"
)

// nodeName is the node of every target, so that transcripts agree.
const nodeName = "coordd-1"

// target is one server to ask.
type target struct {
	name      string
	base      string // http://host:port
	transport http.RoundTripper
	election  func(start bool) error // takes the leader away, and brings one back
}

// client is the official one, over the target's own transport.
func (tg target) client(t *testing.T) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: tg.base,
		HttpClient: &http.Client{Transport: tg.transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// realTarget is the server that the transcripts share.
func realTarget(t *testing.T) target { return targetOf(t, realconsul.Shared(t)) }

func targetOf(t *testing.T, c *realconsul.Cluster) target {
	transport := newTransport()
	t.Cleanup(transport.CloseIdleConnections)
	return target{name: "real", base: "http://" + c.Addr(), transport: transport}
}

// wipe leaves nothing of an earlier script that a later one could see: keys, sessions, services,
// checks.
func (tg target) wipe(t *testing.T) {
	t.Helper()
	c := tg.client(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.KV().DeleteTree("", nil)
	check(err)
	sessions, _, err := c.Session().List(nil)
	check(err)
	for _, s := range sessions {
		_, err := c.Session().Destroy(s.ID, nil)
		check(err)
	}
	services, err := c.Agent().Services()
	check(err)
	for id := range services {
		check(c.Agent().ServiceDeregister(id))
	}
	checks, err := c.Agent().Checks()
	check(err)
	for id := range checks {
		check(c.Agent().CheckDeregister(id))
	}
}

// embeddedInProcess is a fresh embedded server behind its RoundTripper.
func embeddedInProcess(t *testing.T) target {
	s := devconsul.New(devconsul.Config{NodeName: nodeName})
	t.Cleanup(s.Close)
	return target{name: "in-process", base: "http://embedded.invalid", transport: s.RoundTripper(),
		election: electionOf(s)}
}

// embeddedOnPort is a fresh embedded server behind a socket.
func embeddedOnPort(t *testing.T) target {
	s := devconsul.New(devconsul.Config{NodeName: nodeName})
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	transport := newTransport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the server's end: %v", err)
		}
	})
	return target{name: "port", base: "http://" + ln.Addr().String(), transport: transport,
		election: electionOf(s)}
}

func electionOf(s *devconsul.Server) func(bool) error {
	return func(start bool) error {
		if start {
			s.ElectionStart()
		} else {
			s.ElectionEnd()
		}
		return nil
	}
}
