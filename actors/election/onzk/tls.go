package onzk

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// tlsDialer returns a dialer that speaks TLS over connections of base.
func tlsDialer(base zk.Dialer, cfg *tls.Config) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		raw, err := dialedByHost(base(network, address, timeout))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		cfg := cfg.Clone()
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
