package dispatch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// idleConn is a connection to a member that ends when no byte has passed in either direction for as
// long as is allowed; and when the member takes nothing of a request for a shorter time, until it
// begins to answer.
type idleConn struct {
	net.Conn
	most     time.Duration
	taking   time.Duration
	answered atomic.Bool // the request that is under way, in part at least
	// when the deadline was last set, in nanoseconds since the connection was made
	armed atomic.Int64
	made  time.Time
}

func newIdleConn(c net.Conn, most, taking time.Duration) *idleConn {
	i := &idleConn{Conn: c, most: most, taking: taking, made: time.Now()}
	i.answered.Store(true)
	_ = c.SetDeadline(i.made.Add(most))
	return i
}

// begin is for a request that is about to be written.
func (c *idleConn) begin() { c.answered.Store(false) }

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
		if !c.answered.Swap(true) {
			c.armed.Store(int64(time.Since(c.made)))
			_ = c.Conn.SetDeadline(time.Now().Add(c.most)) // also for the write that is under way
		}
		c.touch()
	}
	return n, err
}

func (c *idleConn) Write(p []byte) (int, error) {
	c.touch()
	if !c.answered.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.taking))
		if c.answered.Load() { // meanwhile
			_ = c.Conn.SetWriteDeadline(time.Now().Add(c.most))
		}
	}
	return c.Conn.Write(p)
}

// client is the connection to the client, held to the same: it has to send and to take something
// now and then. Until the answer begins, and for taking it, the time is shorter.
type client struct {
	http.ResponseWriter
	ctrl          *http.ResponseController
	most, short   time.Duration
	wrote, readAt time.Time
	until         time.Time // when all of the answer has to be taken; zero: there is no such time
	body          io.Reader
	hasBody       bool
	continues     bool        // the server sends 100 Continue when the body is read first
	ended         atomic.Bool // the body has
	began         atomic.Bool // the answer has
}

// shortest is the least time that a client may be silent in the middle of a body, or not read.
const shortest = 30 * time.Second

// lingerTime is what the rest of a body that nobody wants gets to arrive, behind the answer.
const lingerTime = 5 * time.Second

func newClient(w http.ResponseWriter, r *http.Request, most, timeout time.Duration) *client {
	c := &client{ResponseWriter: w, ctrl: http.NewResponseController(w), most: most,
		short: min(most, max(timeout, shortest)), body: r.Body}
	if c.hasBody = r.Body != nil && r.ContentLength != 0; c.hasBody {
		c.continues = r.Header.Get("Expect") != ""
		// an answer that comes before the body has ended is sent at once
		_ = c.ctrl.EnableFullDuplex()
		// also of a body that nobody reads: the server takes it off the connection
		c.expect(time.Now())
	}
	return c
}

// expect gives the client the time to send something. Not every connection can.
func (c *client) expect(now time.Time) {
	c.readAt = now
	most := c.short
	if c.began.Load() {
		most = c.most
	}
	_ = c.ctrl.SetReadDeadline(now.Add(most))
}

// Hijack is for an upgraded connection: what the member sends has to be taken in time on it, too.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := c.ctrl.Hijack()
	if err != nil {
		return nil, nil, err
	}
	taker := &takingConn{Conn: conn, most: c.short}
	return taker, bufio.NewReadWriter(buf.Reader, bufio.NewWriter(taker)), nil
}

// takingConn is a connection whose other end has to take what is written.
type takingConn struct {
	net.Conn
	most time.Duration
}

func (c *takingConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.most))
	return c.Conn.Write(p)
}

// CloseWrite tells the other end that nothing more comes, and lets it go on.
func (c *takingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *client) Write(p []byte) (int, error) {
	c.begin()
	if now := time.Now(); now.Sub(c.wrote) > c.short/8 {
		c.take(now)
	}
	return c.ResponseWriter.Write(p)
}

// take gives the client the time to take what is sent next. However little that is: the buffers may
// be full of earlier answers.
func (c *client) take(now time.Time) {
	c.wrote = now
	end := now.Add(c.short)
	if !c.until.IsZero() && c.until.Before(end) {
		end = c.until
	}
	_ = c.ctrl.SetWriteDeadline(end)
}

// FlushError is for the proxy, by way of http.ResponseController: it flushes the headers before
// there is a body.
func (c *client) FlushError() error {
	c.take(time.Now())
	return c.ctrl.Flush()
}

// within gives the client so much time for the answer as a whole, beside what its last piece has.
func (c *client) within(d time.Duration) { c.until = time.Now().Add(d + c.short) }

func (c *client) WriteHeader(status int) {
	if status >= 200 {
		c.begin()
	}
	c.take(time.Now()) // what is none yet (100 Continue, 103 Early Hints) is sent at once
	c.ResponseWriter.WriteHeader(status)
}

// begin is for the beginning of the answer. One that begins before the body has ended is the
// connection's last: in full duplex the server takes whatever is left of a body that broke off for
// the next request.
func (c *client) begin() {
	if c.began.Swap(true) || !c.hasBody || c.ended.Load() {
		return
	}
	c.Header().Set("Connection", "close")
	_ = c.ctrl.SetReadDeadline(time.Now().Add(c.most)) // the body may go on beside the answer
}

// Read reads the request's body.
func (c *client) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(c.readAt) > c.short/8 {
		c.expect(now)
	}
	return c.read(p)
}

func (c *client) read(p []byte) (int, error) {
	if c.continues {
		c.continues = false
		_ = c.ctrl.SetWriteDeadline(time.Now().Add(c.short))
	}
	n, err := c.body.Read(p)
	if err == io.EOF {
		c.ended.Store(true)
		// from here on the server listens for the client's going
		_ = c.ctrl.SetReadDeadline(time.Time{})
	}
	return n, err
}

// all reads a body of at most so many bytes, which take their room from a gate and have to be here
// within a time, however busily they are sent.
func (c *client) all(most int64, room *gate, within time.Duration) ([]byte, int64, error) {
	c.readAt = time.Now()
	_ = c.ctrl.SetReadDeadline(c.readAt.Add(within))
	return room.readAll(readerFunc(c.read), most)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// done gives the client the time for what the server still holds of the answer, and sends behind
// the handler. Of a body that was not read to its end the server reads what is left.
func (c *client) done() {
	if c.hasBody && !c.ended.Load() {
		c.begin()
		_ = c.ctrl.SetReadDeadline(time.Now().Add(min(c.most, lingerTime)))
	}
	c.take(time.Now()) // the server takes it away with the request
}
