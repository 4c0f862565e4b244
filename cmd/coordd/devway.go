package main

import (
	"net"
	"sync"
)

// devWay is the way of a member of dev to its Consul: a listener of that member's own, which can be
// cut off. While it is, connections break at once.
type devWay struct {
	net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[*wayConn]struct{}
}

func newDevWay(ln net.Listener) *devWay {
	return &devWay{Listener: ln, conns: map[*wayConn]struct{}{}}
}

// Accept returns the next connection that is not cut off.
func (w *devWay) Accept() (net.Conn, error) {
	for {
		conn, err := w.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &wayConn{Conn: conn, way: w}
		w.mu.Lock()
		cut := w.cut
		if !cut {
			w.conns[c] = struct{}{}
		}
		w.mu.Unlock()
		if !cut {
			return c, nil
		}
		_ = conn.Close()
	}
}

// setCut cuts the way off, with all connections that there are, or opens it again.
func (w *devWay) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if !cut {
		return
	}
	for c := range w.conns {
		_ = c.Conn.Close()
	}
	clear(w.conns)
}

func (w *devWay) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// wayConn is a connection that its way knows until it is closed.
type wayConn struct {
	net.Conn
	way *devWay
}

func (c *wayConn) Close() error {
	c.way.mu.Lock()
	delete(c.way.conns, c)
	c.way.mu.Unlock()
	return c.Conn.Close()
}
