package onzk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

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

// firstLookup bounds the lookup of a name that was never resolved.
const firstLookup = 3 * time.Second

// resolvingDialer resolves the server's name at each dial. Several addresses may be behind one
// name: the one that was dialed longest ago is the first, because the client's timeout is over when
// one of them has not answered. While DNS is away a name stands for what it stood for last.
type resolvingDialer struct {
	lookup func(ctx context.Context, host string) ([]string, error)
	dial   zk.Dialer // to an address

	mu    sync.Mutex
	known map[string]*knownServer // by name and port
}

// knownServer is a server whose name was resolved.
type knownServer struct {
	addresses []string
	dials     int            // how many addresses were dialed
	dialed    map[string]int // what dials was when an address was dialed last
}

func newResolvingDialer() *resolvingDialer {
	return &resolvingDialer{lookup: net.DefaultResolver.LookupHost, dial: net.DialTimeout,
		known: map[string]*knownServer{}}
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

// resolve returns how many addresses the server's host has.
func (r *resolvingDialer) resolve(server, host string, timeout time.Duration) (int, error) {
	r.mu.Lock()
	n := r.known[server]
	r.mu.Unlock()
	if n == nil {
		timeout = max(timeout, firstLookup)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	addresses, err := r.lookup(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case n == nil && err != nil:
		return 0, err
	case n == nil:
		n = &knownServer{dialed: map[string]int{}}
		r.known[server] = n
	}
	if err == nil {
		n.addresses = addresses
		maps.DeleteFunc(n.dialed, func(address string, _ int) bool {
			return !slices.Contains(addresses, address)
		})
	}
	return len(n.addresses), nil
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
