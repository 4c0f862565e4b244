package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/pflag"
)

// The limits of the page's server.
const (
	pageConns = 256              // less where descriptors are few
	pagePace  = 10 * time.Second // for each piece of an answer
	pageBody  = 15 * time.Second // for a body, which has at most configstore.MaxValue bytes
)

// web serves a site on an address. A nil web is HTTP switched off.
type web struct {
	// opened before anything else, so that a port in use stops coordd from starting
	first net.Listener
	used  bool
	on    string
	hosts *httpserver.Hosts
	conns int
	log   *slog.Logger // nil: none
	site  *site
}

// hostsFlag registers the names that the page may be asked for by.
func hostsFlag(f *pflag.FlagSet, names *[]string, flag, what string) {
	f.StringSliceVar(names, flag, nil, "More `names`, separated by commas, by which "+what+
		" may be asked for, such as that of a TLS front before it. Addresses, names without a dot and this host's own always may; any other may be a web page's that was rebound, and is refused.")
}

// checkHosts refuses what cannot be a name.
func checkHosts(flag string, names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "/*@ \t") {
			return usage("--%s %q: give the name of a host, without a scheme or a path", flag, name)
		}
	}
	return nil
}

// openWeb listens on address; names are those of --http-host.
func openWeb(address string, names ...string) (*web, error) {
	if err := checkHosts("http-host", names); err != nil {
		return nil, err
	}
	if address == "" {
		return nil, nil
	}
	ln, err := listen("http", address)
	if err != nil {
		return nil, err
	}
	return &web{first: ln, on: ln.Addr().String(), hosts: httpserver.NewHosts("--http-host",
		append(names, address)...), conns: pageConns}, nil
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
	w.site.waits = w.conns / 2
	return serve(ctx, ln, httpserver.New(httpserver.Config{
		Handler: w.site.handler(), Hosts: w.hosts, Conns: w.conns, Pace: pagePace, Body: pageBody,
		Always:   func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		ErrorLog: errorLog(w.log),
	}), 300*time.Millisecond)
}

// errorLog is where net/http complains: of clients, and so at debug level.
func errorLog(l *slog.Logger) *log.Logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}

// farewellTime is what a request that is cut off gets to be told so.
const farewellTime = 200 * time.Millisecond

// serve serves until ctx ends; requests under way then have last to end. Those that have not ended
// by then are canceled, and have a moment to say so.
func serve(ctx context.Context, ln net.Listener, server *httpserver.Server,
	last time.Duration) error {
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
