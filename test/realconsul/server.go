//go:build unix

package realconsul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/coordd/coordd/test/realserver"
	"github.com/hashicorp/consul/api"
)

// What each port of a server's block is for.
const (
	portHTTP = iota
	portRPC
	portSerf
	portHTTPS
	portDNS = portHTTPS // a server has one of them
)

// Server is one Consul server, or a client agent. Its levers may be used from any goroutine; each
// reports a failure to the test as well as returning it, so that a chaos loop may ignore it.
type Server struct {
	// Levers act on the server. One that stops does not leave the cluster, as after an operator's
	// restart. A client agent does leave.
	realserver.Levers
	// Node is its node name.
	Node string

	cluster   *Cluster
	client    bool   // an agent that is no server
	linked    int    // its number, from 1, in a cluster with links
	config    string // path of its configuration file
	process   *realserver.Process
	ports     *realserver.Ports
	transport *http.Transport
}

// Addr is its HTTP address, host and port; it stays the same over restarts.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.Base+portHTTP))
}

// HTTPSAddr is its HTTPS address with Options.TLS.
func (s *Server) HTTPSAddr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.Base+portHTTPS))
}

// DNSAddr is its DNS address with Options.DNS, for UDP and TCP.
func (s *Server) DNSAddr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.Base+portDNS))
}

// Client returns a client of this server, with the cluster's token. All clients of one server share
// their connections, which are closed when the cluster ends.
func (s *Server) Client() *api.Client {
	client, err := api.NewClient(&api.Config{
		Address: s.Addr(), Scheme: "http", Token: s.cluster.Token,
		HttpClient: &http.Client{Transport: s.transport},
	})
	if err != nil {
		// of a config without TLS: only by a bug
		panic(fmt.Sprintf("realconsul: api.NewClient: %v", err))
	}
	return client
}

// HTTPClient returns an HTTP client for raw requests, without the token, over the same connections
// as Client.
func (s *Server) HTTPClient() *http.Client { return &http.Client{Transport: s.transport} }

// StopAsService ends the server as a service manager does: with SIGTERM, and with SIGKILL when it
// has not obeyed for a minute. A Consul server (1.22.7) whose leader goes while it stops may answer
// "No cluster leader" for as long as it is let: seen once in some hundred restarts amid faults.
func (s *Server) StopAsService() error {
	return s.lever(func() error {
		err := s.process.End(syscall.SIGTERM)
		if errors.Is(err, realserver.ErrKilled) {
			s.cluster.t.Logf("%s: %v", s.Node, err)
			return nil
		}
		return err
	})
}

// WaitReady returns when the server sees a leader, answers a consistent read and is in the catalog
// as healthy.
func (s *Server) WaitReady(ctx context.Context) error {
	for {
		last := s.ready(ctx)
		if last == nil {
			return nil
		}
		if s.process.Crashed() {
			return fmt.Errorf("realconsul: %s ended by itself while starting:\n%s", s.Node,
				s.process.Tail(logTail))
		}
		if !pause(ctx) {
			return fmt.Errorf("realconsul: %s not ready: %w: last seen: %w", s.Node,
				context.Cause(ctx), last)
		}
	}
}

func (s *Server) ready(ctx context.Context) error {
	// Consistent: the leader has to prove that it leads and has everything applied that its
	// predecessors wrote.
	if _, err := s.get(ctx, "/v1/kv/?keys&separator=/&consistent"); err != nil {
		return err
	}
	raw, err := s.get(ctx, "/v1/health/node/"+s.Node+"?consistent")
	if err != nil {
		return err
	}
	var checks []struct{ CheckID, Status string }
	if err := json.Unmarshal(raw, &checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.CheckID == "serfHealth" && check.Status == "passing" {
			return nil
		}
	}
	return errors.New("its node is not in the catalog as healthy yet")
}

func (s *Server) get(ctx context.Context, path string) ([]byte, error) {
	return s.ask(ctx, http.MethodGet, path)
}

func (s *Server) ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr()+path, nil)
	if err != nil {
		return nil, err
	}
	if s.cluster.Token != "" {
		req.Header.Set("X-Consul-Token", s.cluster.Token)
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return body, nil
}

var errShared = errors.New(
	"realconsul: the shared server stays up: take one of your own with Start")

func (s *Server) lever(do func() error) error {
	err := errShared
	if !s.cluster.shared {
		err = do()
	}
	if err != nil {
		s.cluster.t.Error(err)
	}
	return err
}
