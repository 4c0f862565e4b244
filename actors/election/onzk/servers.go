package onzk

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// namedServers is a zk.HostProvider that keeps the servers' names: certificates are issued for
// names, and a server may come back under its name with another address. Each dial resolves them.
// The client's own provider resolves all names once, at the start.
type namedServers struct {
	mu         sync.Mutex
	servers    []string
	curr, last int
}

// Init implements zk.HostProvider.
func (n *namedServers) Init(servers []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers, n.curr, n.last = slices.Clone(servers), -1, -1
	rand.Shuffle(len(n.servers), func(i, j int) {
		n.servers[i], n.servers[j] = n.servers[j], n.servers[i]
	})
	return nil
}

// Len implements zk.HostProvider.
func (n *namedServers) Len() int { return len(n.servers) }

// Next returns the next server. retryStart: all servers were tried since the last one that
// answered, so the client should pause.
func (n *namedServers) Next() (server string, retryStart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.curr = (n.curr + 1) % len(n.servers)
	retryStart = n.curr == n.last
	n.last = max(n.last, 0)
	return n.servers[n.curr], retryStart
}

// Connected implements zk.HostProvider.
func (n *namedServers) Connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = n.curr
}

// tlsDialer returns a dialer that speaks TLS over connections of base.
func tlsDialer(base zk.Dialer, now func() *tls.Config) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		raw, err := base(network, address, timeout)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		cfg := now().Clone()
		if host, _, err := net.SplitHostPort(address); cfg.ServerName == "" && err == nil {
			cfg.ServerName = host
		}
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS with %s: %w", address, err)
		}
		return conn, nil
	}
}
