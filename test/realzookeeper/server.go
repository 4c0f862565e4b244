//go:build unix

package realzookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/test/realserver"
)

// Server is one ZooKeeper server. Its levers may be used from any goroutine; each reports a failure
// to the test as well as returning it.
type Server struct {
	realserver.Levers
	// ID is its number in the ensemble, from 1.
	ID int

	ensemble *Ensemble
	process  *realserver.Process
	ports    *realserver.Ports
	dir      string
}

// Addr is its client address, host and port; it stays the same over restarts.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.Base+portClient))
}

// SecureAddr is its client address for TLS (see Options.KeyStore).
func (s *Server) SecureAddr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.Base+portSecure))
}

func (s *Server) lever(do func() error) error {
	err := do()
	if err != nil {
		s.ensemble.t.Error(err)
	}
	return err
}

// WaitReady returns when the server serves: alone, or as a leader or a follower.
func (s *Server) WaitReady(ctx context.Context) error {
	for {
		// A question that came between the opening of the port and the start of the server is never
		// answered.
		look, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := s.Ask(look, "srvr")
		cancel()
		if err == nil && strings.Contains(answer, "Mode: ") {
			return nil
		}
		if err == nil {
			err = errors.New(strings.TrimSpace(answer))
		}
		if s.process.Crashed() {
			return fmt.Errorf("realzookeeper: server %d ended by itself while starting:\n%s", s.ID,
				s.process.Tail(logTail))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("realzookeeper: server %d not ready: %w: last seen: %w", s.ID,
				context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ask sends one of ZooKeeper's commands of four letters, such as srvr, cons, wchp, dump or mntr,
// and returns the answer.
func (s *Server) Ask(ctx context.Context, command string) (string, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline := time.Now().Add(5 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
