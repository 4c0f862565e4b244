package actorstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Serve serves HTTP at an address, for [Cluster.Dial] alone, until the end of the test. It opens no
// socket, so it works in a bubble. It is for the service of a member that publishes the address.
func (c *Cluster) Serve(address string, h http.Handler) {
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	c.mu.Lock()
	c.served[address] = l
	c.mu.Unlock()
	server := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	c.t.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
}

// Dial connects to what Serve serves: for dispatch.Config.Dial.
func (c *Cluster) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	c.mu.Lock()
	l := c.served[address]
	c.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("actorstest: nothing is served at %s: call Serve", address)
	}
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// listener accepts what Dial brings.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.IPAddr{} }
