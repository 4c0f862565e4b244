package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/httpserver"
	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/pflag"
)

// pageConns is the most connections to the page; less where descriptors are few.
const pageConns = 256

// door is an address that is listened on before anything else, so that a port in use stops coordd
// from starting. A nil one is switched off.
type door struct {
	first net.Listener
	used  bool
}

func openDoor(flag, address string) (*door, error) {
	ln, err := listen(flag, address)
	if err != nil {
		return nil, err
	}
	return &door{first: ln}, nil
}

func (d *door) close() {
	if d != nil {
		_ = d.first.Close()
	}
}

// address is the one listened on; empty when it is switched off.
func (d *door) address() string {
	if d == nil {
		return ""
	}
	return d.first.Addr().String()
}

// serve is serve on this address. A later incarnation opens it anew.
func (d *door) serve(ctx context.Context, server *httpserver.Server, last time.Duration) (
	err error) {
	ln := d.first
	if d.used {
		if ln, err = net.Listen("tcp", d.address()); err != nil {
			return err
		}
	}
	d.used = true
	return serve(ctx, ln, server, last)
}

// pageServer serves the page at its door.
type pageServer struct {
	*door
	names []string // that the page may be asked for by
	conns int
	access
	log  *slog.Logger // nil: none
	page http.Handler
}

// hostsFlag registers the names that the page may be asked for by.
func hostsFlag(f *pflag.FlagSet, names *[]string, flag, what string) {
	f.StringSliceVar(names, flag, nil, "More `names`, separated by commas, by which "+what+
		" may be asked for, such as that of a TLS front before it. Addresses, names without a "+
		"dot and this host's own always may; any other may be a web page's that was rebound, and "+
		"is refused.")
}

// openPage listens on address; names are those of --http-host.
func openPage(address string, names ...string) (s pageServer, err error) {
	if address != "" {
		s.door, err = openDoor("http", address)
	}
	s.names, s.conns = append(names, address), pageConns
	return s, err
}

// published is what a member tells others of where it is.
func (s *pageServer) published() string {
	name, _ := os.Hostname()
	host, port, err := net.SplitHostPort(s.address())
	if err != nil {
		return name
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = name
	}
	return net.JoinHostPort(host, port)
}

// child serves what handler makes of o, which are its options.
func (s *pageServer) child(handler func(web.Options) http.Handler, consul string,
	o web.Options) supervisor.Child {
	o.Hosts, o.HostsFlag, o.ConfigWaits = s.names, "--http-host", max(1, s.conns/2)
	o.Followers, o.TokenNow = max(1, s.conns/4), s.token
	o.Explain = func(err error) error { return trouble(consul, err) }
	s.page = handler(o)
	return supervisor.Child{Name: "http", Run: s.run}
}

func (s *pageServer) run(ctx context.Context) error {
	return s.serve(ctx, httpserver.New(httpserver.Config{
		Handler: s.page, Conns: s.conns, TLS: s.tls, ErrorLog: errorLog(s.log),
	}), 300*time.Millisecond)
}

// errorLog is where net/http complains: of clients, and so at debug level.
func errorLog(l *slog.Logger) *log.Logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}

// serve serves until ctx ends; requests under way then have last to end.
func serve(ctx context.Context, ln net.Listener, server *httpserver.Server,
	last time.Duration) error {
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end() // for upgraded connections, which the server has forgotten
	server.BaseContext = func(net.Listener) context.Context { return requests }
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		wait, cancel := context.WithTimeout(requests, last)
		defer cancel()
		if server.Shutdown(wait) != nil {
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
