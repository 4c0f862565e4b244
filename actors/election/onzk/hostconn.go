package onzk

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
)

// hostConn is a connection that a host's dialer has made. The client calls it in goroutines of its
// own, where a panic would end the process: here it is an error, as of a connection that has
// broken, and so is all that is called later: a deadline that was not set would be waited for. The
// first panic closes the connection, which ends a Read under way.
type hostConn struct {
	net.Conn
	broken atomic.Pointer[error]
}

// dialedByHost is what a host's dialer has returned, made safe.
func dialedByHost(conn net.Conn, err error) (net.Conn, error) {
	if conn != nil {
		return &hostConn{Conn: conn}, err
	}
	if err == nil {
		err = errors.New("the dialer has returned no connection and no error")
	}
	return nil, err
}

// protected calls f, and returns its error or its panic. The client logs why a connection has
// failed.
func (c *hostConn) protected(f func() error) (err error) {
	if broken := c.broken.Load(); broken != nil {
		return *broken
	}
	broken := contained.Call(slog.New(slog.DiscardHandler), "the connection", func() error {
		err = f()
		return nil
	})
	if broken != nil {
		if c.broken.CompareAndSwap(nil, &broken) {
			// Nobody waits for it: the panic may have left locked what Close needs.
			contained.Go(slog.New(slog.DiscardHandler), "the connection's Close",
				func() error { return c.Conn.Close() }, func(error) {})
		}
		return broken
	}
	return err
}

func (c *hostConn) transfer(call func() (int, error), most int) (n int, err error) {
	err = c.protected(func() (err error) {
		n, err = call()
		return err
	})
	if n < 0 || n > most {
		return 0, fmt.Errorf("the connection has passed %d bytes on, of %d", n, most)
	}
	return n, err
}

func (c *hostConn) Read(b []byte) (int, error) {
	return c.transfer(func() (int, error) { return c.Conn.Read(b) }, len(b))
}

func (c *hostConn) Write(b []byte) (int, error) {
	return c.transfer(func() (int, error) { return c.Conn.Write(b) }, len(b))
}

func (c *hostConn) Close() error { return c.protected(func() error { return c.Conn.Close() }) }

func (c *hostConn) SetDeadline(t time.Time) error {
	return c.protected(func() error { return c.Conn.SetDeadline(t) })
}

func (c *hostConn) SetReadDeadline(t time.Time) error {
	return c.protected(func() error { return c.Conn.SetReadDeadline(t) })
}

func (c *hostConn) SetWriteDeadline(t time.Time) error {
	return c.protected(func() error { return c.Conn.SetWriteDeadline(t) })
}
