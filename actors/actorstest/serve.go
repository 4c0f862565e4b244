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
	p := make(pipe)
	c.mu.Lock()
	c.served[address] = p
	c.mu.Unlock()
	server := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(p) })
	c.t.Cleanup(func() {
		c.mu.Lock()
		delete(c.served, address)
		c.mu.Unlock()
		close(p)
		done.Wait()
		_ = server.Close()
	})
}

// Dial connects to what Serve serves: for dispatch.Config.Dial.
func (c *Cluster) Dial(_ context.Context, _, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.served[address]
	if p == nil {
		return nil, fmt.Errorf("actorstest: nothing is served at %s: call Serve", address)
	}
	near, far := net.Pipe()
	p <- far // its server does nothing but accept
	return near, nil
}

// pipe is a listener that accepts what Dial brings.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	if conn, open := <-p; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipe) Close() error   { return nil }
func (p pipe) Addr() net.Addr { return &net.IPAddr{} }
