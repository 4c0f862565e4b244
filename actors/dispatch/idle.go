package dispatch

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// idleConn is a connection to a member that ends when no byte has passed in either direction for as long as is allowed.
type idleConn struct {
	net.Conn
	most  time.Duration
	armed atomic.Int64 // when the deadline was last set, in nanoseconds since the connection was made
	made  time.Time
}

func newIdleConn(c net.Conn, most time.Duration) *idleConn {
	i := &idleConn{Conn: c, most: most, made: time.Now()}
	_ = c.SetDeadline(i.made.Add(most))
	return i
}

// touch sets the deadline anew, but not for every byte: an eighth of the time is not worth a call.
func (c *idleConn) touch() {
	now := time.Since(c.made)
	if last := c.armed.Load(); now-time.Duration(last) < c.most/8 {
		return
	}
	c.armed.Store(int64(now))
	_ = c.Conn.SetDeadline(c.made.Add(now + c.most))
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.touch()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *idleConn) Write(p []byte) (int, error) {
	c.touch()
	return c.Conn.Write(p)
}

// client is the connection to the client, held to the same: it has to send and to take something now and then.
type client struct {
	http.ResponseWriter
	ctrl          *http.ResponseController
	most          time.Duration
	wrote, readAt time.Time
	body          io.Reader
}

func newClient(w http.ResponseWriter, r *http.Request, most time.Duration) *client {
	c := &client{ResponseWriter: w, ctrl: http.NewResponseController(w), most: most, body: r.Body}
	if r.Body != nil && r.ContentLength != 0 {
		c.expect(time.Now()) // also of a body that nobody reads: the server takes it off the connection before it answers
	}
	return c
}

// expect gives the client the time to send something. Not every connection can.
func (c *client) expect(now time.Time) {
	c.readAt = now
	_ = c.ctrl.SetReadDeadline(now.Add(c.most))
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *client) Write(p []byte) (int, error) {
	if now := time.Now(); now.Sub(c.wrote) > c.most/8 {
		c.wrote = now
		_ = c.ctrl.SetWriteDeadline(now.Add(c.most))
	}
	return c.ResponseWriter.Write(p)
}

// Read reads the request's body.
func (c *client) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(c.readAt) > c.most/8 {
		c.expect(now)
	}
	return c.read(p)
}

func (c *client) read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if err == io.EOF {
		_ = c.ctrl.SetReadDeadline(time.Time{}) // from here on the server listens for the client's going
	}
	return n, err
}

// all reads a body of at most so many bytes that has to be here within a time, however busily it is sent.
func (c *client) all(most int64, within time.Duration) ([]byte, error) {
	c.readAt = time.Now()
	_ = c.ctrl.SetReadDeadline(c.readAt.Add(within))
	return io.ReadAll(io.LimitReader(readerFunc(c.read), most))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// done leaves the connection as it was found. A deadline for a body that was not read to its end stays: the server reads
// what is left of it, and sets its own afterwards.
func (c *client) done() {
	if !c.wrote.IsZero() {
		_ = c.ctrl.SetWriteDeadline(time.Time{})
	}
}
