// Command gohost is a Go service that works on items: a member of coordd inside of its own
// supervision tree, and the member's page in its own HTTP server.
//
//	go run ./docs/examples/gohost -id n1 -listen 127.0.0.1:8080
//	coordd work add device-1 device-2 --service gohost
//	curl http://127.0.0.1:8080/items        # what runs here, and with which token
//	curl http://127.0.0.1:8080/healthz      # 200 while items may run here
//	curl http://127.0.0.1:8080/readyz       # and while their work does not fail
//	open http://127.0.0.1:8080/coordd/      # the page
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/supervisor"
)

func main() {
	id := flag.String("id", "", "the `id` of this member, unique in the service")
	listen := flag.String("listen", "127.0.0.1:8080", "the `address` to serve HTTP on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *id, *listen); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

// run is the service, until ctx ends.
func run(ctx context.Context, id, listen string) error {
	running := &items{tokens: map[string]uint64{}}
	member, err := actors.New(actors.Config{Service: "gohost", ID: id, Work: running.work,
		Address: listen})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	page := web.New(member, web.Options{Stopping: ctx.Done()})
	mux := http.NewServeMux()
	mux.Handle("/coordd/", http.StripPrefix("/coordd", page))
	mux.Handle("/healthz", page)
	mux.Handle("/readyz", page)
	mux.HandleFunc("/items", running.list)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	// The member is a child like any other. It is started first and stopped last: the server shows
	// how the items leave.
	tree, err := supervisor.New("gohost", supervisor.Tree{Children: []supervisor.Child{
		member.Child("member"),
		{Name: "http", Run: func(ctx context.Context) error { return serve(ctx, server, ln) }},
	}})
	if err != nil {
		return err
	}
	return tree.Run(ctx)
}

// serve serves until ctx ends. A listener that has failed is not opened again: the service ends.
func serve(ctx context.Context, server *http.Server, ln net.Listener) error {
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return supervisor.Escalate(fmt.Errorf("HTTP: %w", err))
	}
	return nil
}

// items are those that run here.
type items struct {
	mu     sync.Mutex
	tokens map[string]uint64
}

// work is called once for each item that this member owns. Its return is the release, so that it
// returns when the work has really ended.
func (r *items) work(ctx context.Context, item actors.Item) error {
	r.mu.Lock()
	r.tokens[item.ID] = item.Token
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.tokens, item.ID)
		r.mu.Unlock()
	}()
	for {
		select {
		case <-time.After(time.Second): // poll the device here, and pass item.Token on
		case <-ctx.Done():
			return nil
		}
	}
}

// list writes a line for each item.
func (r *items) list(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for id, token := range r.tokens {
		lines = append(lines, fmt.Sprintf("%s %d", id, token))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
}
