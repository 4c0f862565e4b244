package devconsul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// stopGrace is how long requests under way may take once the order to stop has come. Blocking
// queries take none of it: they end with the order.
const stopGrace = 500 * time.Millisecond

// The limits of all connections together.
const (
	mostConns = 4096
	slowest   = 30 * time.Second // for a read of a body, and for each piece of an answer
)

// Serve serves the API on a listener until ctx ends or the server is closed; then it stops within a
// second, long polls notwithstanding, and returns nil. It closes the listener.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	requests, endRequests := context.WithCancel(context.Background())
	defer endRequests()
	hosts := httpserver.NewHosts(s.cfg.HostsFlag, s.cfg.Hosts...)
	// A browser's page of another origin must not write.
	own := http.NewCrossOriginProtection().Handler(s)
	srv := httpserver.New(httpserver.Config{
		Handler:  httpserver.Paced(hosts.Only(own, nil), slowest),
		Conns:    mostConns,
		Header:   10 * time.Second,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	})
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	select {
	case err := <-ended:
		return fmt.Errorf("devconsul: serve: %w", err)
	case <-ctx.Done():
	case <-s.closed:
	}
	endRequests()
	grace, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = srv.Close() // what has not ended by now is cut off
	}
	<-ended
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("devconsul: stop: %w", err)
	}
	return nil
}
