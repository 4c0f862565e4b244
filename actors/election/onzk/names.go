package onzk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/go-zookeeper/zk"
)

// namedServers is a zk.HostProvider that keeps the servers' names: certificates are issued for
// names, and a server may come back under its name with another address. The client's own provider
// resolves all names once, at the start, and one that it cannot resolve makes it fail.
type namedServers struct {
	mu         sync.Mutex
	servers    []string
	curr, last int
}

func (n *namedServers) Init(servers []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers, n.curr, n.last = slices.Clone(servers), -1, -1
	rand.Shuffle(len(n.servers), func(i, j int) {
		n.servers[i], n.servers[j] = n.servers[j], n.servers[i]
	})
	return nil
}

func (n *namedServers) Len() int { return len(n.servers) }

// Next returns the next server. retryStart: all servers were tried since the last one that
// answered, so the client should pause.
func (n *namedServers) Next() (server string, retryStart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.curr = (n.curr + 1) % len(n.servers)
	retryStart = n.curr == n.last
	if n.last < 0 {
		n.last = 0
	}
	return n.servers[n.curr], retryStart
}

func (n *namedServers) Connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = n.curr
}

const (
	// firstLookup bounds the wait for the lookup of a name that was never resolved.
	firstLookup = 3 * time.Second
	// longestLookup bounds a lookup. It goes on when nobody waits for it any more.
	longestLookup = 10 * time.Second
)

// resolvingDialer resolves the server's name at each dial. Several addresses may be behind one
// name: the one that was dialed longest ago is the first, because the client's timeout is over when
// one of them has not answered. While DNS is away a name stands for what it stood for last. An
// answer of DNS that comes too late for one dial is there for the next one.
type resolvingDialer struct {
	lookup func(ctx context.Context, host string) ([]string, error)
	dial   zk.Dialer       // to an address
	ctx    context.Context // of the lookups
	end    context.CancelFunc

	mu    sync.Mutex
	known map[string]*knownServer // by name and port
}

// knownServer is a server whose name is resolved.
type knownServer struct {
	lookup    chan struct{}  // closed at the end of the lookup under way; nil: there is none
	err       error          // of the last lookup
	addresses []string       // by the last lookup that had any
	dials     int            // how many addresses were dialed
	dialed    map[string]int // what dials was when an address was dialed last
}

// newResolvingDialer returns a dialer whose lookups its end ends.
func newResolvingDialer() *resolvingDialer {
	r := &resolvingDialer{lookup: net.DefaultResolver.LookupHost, dial: net.DialTimeout,
		known: map[string]*knownServer{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

func (r *resolvingDialer) Dial(network, server string, timeout time.Duration) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return r.dial(network, server, timeout)
	}
	count, err := r.resolve(server, host, timeout)
	if err != nil {
		return nil, err
	}
	var failed []error
	for deadline := time.Now().Add(timeout); len(failed) < count; {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		conn, err := r.dial(network, net.JoinHostPort(r.next(server), port), left)
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// resolve returns how many addresses the server's host has. It waits for a lookup, but not for one
// that takes longer than the timeout if an earlier one has had an answer.
func (r *resolvingDialer) resolve(server, host string, timeout time.Duration) (int, error) {
	r.mu.Lock()
	n := r.known[server]
	if n == nil {
		n = &knownServer{dialed: map[string]int{}}
		r.known[server] = n
	}
	if n.lookup == nil {
		n.lookup = make(chan struct{})
		r.lookUp(n, host)
	}
	ended := n.lookup
	if len(n.addresses) == 0 {
		timeout = max(timeout, firstLookup)
	}
	r.mu.Unlock()
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	late := false
	select {
	case <-ended:
	case <-patience.C:
		late = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(n.addresses) > 0:
		return len(n.addresses), nil
	case late:
		return 0, fmt.Errorf("DNS has not answered within %v what %s is", timeout, host)
	}
	return 0, n.err
}

// lookUp begins the lookup of a server's host.
func (r *resolvingDialer) lookUp(n *knownServer, host string) {
	var addresses []string
	// The client logs why a dial has failed.
	contained.Go(slog.New(slog.DiscardHandler), "a lookup", func() (err error) {
		ctx, cancel := context.WithTimeout(r.ctx, longestLookup)
		defer cancel()
		addresses, err = r.lookup(ctx, host)
		if err == nil && len(addresses) == 0 {
			err = fmt.Errorf("%s has no address", host)
		}
		return err
	}, func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n.err = err; err == nil {
			n.addresses = addresses
			maps.DeleteFunc(n.dialed, func(address string, _ int) bool {
				return !slices.Contains(addresses, address)
			})
		}
		close(n.lookup)
		n.lookup = nil
	})
}

// next returns the address of the server whose turn it is: the one that was dialed longest ago, or
// never. DNS may give them in another order each time.
func (r *resolvingDialer) next(server string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.known[server]
	address := slices.MinFunc(n.addresses, func(a, b string) int {
		return cmp.Compare(n.dialed[a], n.dialed[b])
	})
	n.dials++
	n.dialed[address] = n.dials
	return address
}
