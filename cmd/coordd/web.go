package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/supervisor"
)

// web serves a site on an address. A nil web is HTTP switched off.
type web struct {
	first net.Listener // opened before anything else, so that a port in use stops coordd from starting
	used  bool
	on    string
	site  *site
}

func openWeb(address string) (*web, error) {
	if address == "" {
		return nil, nil
	}
	ln, err := listen("http", address)
	if err != nil {
		return nil, err
	}
	return &web{first: ln, on: ln.Addr().String()}, nil
}

func (w *web) close() {
	if w != nil {
		_ = w.first.Close()
	}
}

// address is the one listened on; empty when HTTP is off.
func (w *web) address() string {
	if w == nil {
		return ""
	}
	return w.on
}

// published is what a member tells others of where it is.
func (w *web) published() string {
	name, _ := os.Hostname()
	host, port, err := net.SplitHostPort(w.address())
	if err != nil {
		return name
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = name
	}
	return net.JoinHostPort(host, port)
}

func (w *web) reportOf(report func() supervisor.Report) {
	if w != nil {
		w.site.report = report
	}
}

func (w *web) child(s *site) supervisor.Child {
	w.site = s
	return supervisor.Child{Name: "http", Run: w.run}
}

// run serves until ctx ends. A later incarnation opens the address anew.
func (w *web) run(ctx context.Context) error {
	ln := w.first
	if w.used {
		var err error
		if ln, err = net.Listen("tcp", w.on); err != nil {
			return err
		}
	}
	w.used = true
	return serve(ctx, ln, &http.Server{Handler: w.site.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}, 300*time.Millisecond)
}

// farewellTime is what a request that is cut off gets to be told so.
const farewellTime = 200 * time.Millisecond

// serve serves until ctx ends; requests under way then have last to end. Those that have not ended by then are canceled, and
// have a moment to say so.
func serve(ctx context.Context, ln net.Listener, server *http.Server, last time.Duration) error {
	requests, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(dispatch.ErrStopping) // for upgraded connections, which the server has forgotten
	server.BaseContext = func(net.Listener) context.Context { return requests }
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		wait, cancel := context.WithTimeout(requests, last)
		defer cancel()
		if server.Shutdown(wait) == nil {
			return
		}
		end(dispatch.ErrStopping)
		moment, over := context.WithTimeout(context.WithoutCancel(ctx), farewellTime)
		defer over()
		if server.Shutdown(moment) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(ln)
	if stop() {
		_ = server.Close()
	} else {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
