// Command routed counts visits: each item is a counter in the memory of the member that owns it,
// and a request that reaches any member is brought to the owner.
//
//	go run ./docs/examples/routed -id n1 -front 127.0.0.1:8000 -service 127.0.0.1:8001
//	go run ./docs/examples/routed -id n2 -front 127.0.0.1:8010 -service 127.0.0.1:8011
//	coordd work add home about --service routed
//	curl -X POST http://127.0.0.1:8000/home      # home 1 at n2: its owner counts
//	curl http://127.0.0.1:8010/home
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/supervisor"
)

func main() {
	id := flag.String("id", "", "the `id` of this member, unique in the service")
	front := flag.String("front", "127.0.0.1:8000", "the `address` that clients send requests to")
	service := flag.String("service", "127.0.0.1:8001",
		"the `address` that other members bring requests to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *id, *front, *service); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

// run is one member, its service and the way to all members' services, until ctx ends.
func run(ctx context.Context, id, front, service string) error {
	counts := &counters{member: id, owned: map[string]*counter{}}
	member, err := actors.New(actors.Config{
		Service: "routed", ID: id, Work: counts.work,
		Address: service, // what the others see in this member's record
	})
	if err != nil {
		return err
	}
	toOwners, err := dispatch.New(dispatch.Config{
		Locator: member.Router(), // shares the member's own watches
	})
	if err != nil {
		return err
	}
	defer toOwners.CloseIdleConnections()
	atFront, err := serve(front, toOwners)
	if err != nil {
		return err
	}
	atService, err := serve(service, counts)
	if err != nil {
		return err
	}
	tree, err := supervisor.New("routed", supervisor.Tree{Children: []supervisor.Child{
		{Name: "service", Run: atService},
		{Name: "front", Run: atFront},
		// Stopped first: its items leave while requests can still be brought to their new owners.
		member.Child("member"),
	}})
	if err != nil {
		return err
	}
	return tree.Run(ctx)
}

// serve listens at once, and serves in what it returns, until that one's context ends.
func serve(addr string, h http.Handler) (func(context.Context) error, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { server.Close() })()
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return supervisor.Escalate(fmt.Errorf("HTTP: %w", err))
		}
		return nil
	}, nil
}

// counters are those of the items that this member owns.
type counters struct {
	member string
	mu     sync.Mutex
	owned  map[string]*counter
}

// counter is one item, of the tenure that its grant names.
type counter struct {
	grant  uint64
	visits int
}

// work has the item's counter here while the item is owned. A service that is to remember the count
// reads it here, and writes it with the work's token.
func (c *counters) work(ctx context.Context, item actors.Item) error {
	c.mu.Lock()
	c.owned[item.ID] = &counter{grant: item.Grant}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	delete(c.owned, item.ID)
	c.mu.Unlock()
	return nil
}

// ServeHTTP answers for an item that this member owns, by the grant that the request was sent with,
// and says of any other that the request is misdirected: the dispatcher looks anew then.
func (c *counters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	item, err := url.PathUnescape(r.Header.Get(dispatch.HeaderItem))
	if err != nil {
		http.Error(w, dispatch.HeaderItem+": "+err.Error(), http.StatusBadRequest)
		return
	}
	grant := r.Header.Get(dispatch.HeaderGrant)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.owned[item]
	if n == nil || strconv.FormatUint(n.grant, 10) != grant {
		http.Error(w, fmt.Sprintf("%q of grant %q is not at %s", item, grant, c.member),
			http.StatusMisdirectedRequest)
		return
	}
	if r.Method == http.MethodPost {
		n.visits++
	}
	fmt.Fprintf(w, "%s %d at %s\n", item, n.visits, c.member)
}
