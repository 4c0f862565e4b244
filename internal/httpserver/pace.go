package httpserver

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Piece is how much of an answer, in bytes, is sent under one deadline.
const Piece = 64 << 10

// linger is how long the rest of a body that nobody wants is read behind the answer. A connection
// that is closed before it is read may lose the answer.
const linger = 2 * time.Second

// Paced returns a handler whose clients have so much time for each [Piece] of an answer, and for
// each read of a body. The time between two writes or two reads is the handler's. It does nothing
// below another one.
func Paced(next http.Handler, pace time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(*client); ok {
			next.ServeHTTP(w, r)
			return
		}
		c := &client{ResponseWriter: w, ctrl: http.NewResponseController(w), pace: pace,
			multiplexed: r.ProtoMajor >= 2}
		if r.Body != nil && r.ContentLength != 0 {
			// A refusal is sent at once, and not when the body that nobody wants has come.
			_ = c.ctrl.EnableFullDuplex()
			c.body = r.Body
			r.Body = c
		}
		next.ServeHTTP(c, r)
		c.end()
	})
}

// client is one that has to keep up. It is both the answer and the body of its request.
type client struct {
	http.ResponseWriter
	ctrl        *http.ResponseController
	pace        time.Duration
	multiplexed bool // HTTP/2: the connection is not the request's alone
	began       bool // the answer has

	body io.ReadCloser // nil: there is none

	mu    sync.Mutex // a proxy reads the body in a goroutine of its own
	ended bool       // the body has
	over  bool       // so has the handler
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// begin is for the beginning of the answer. One that begins before the body has ended is the
// connection's last: what is left of a body that broke off would be taken for the next request.
func (c *client) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began && c.body != nil && !c.ended && !c.multiplexed {
		c.Header().Set("Connection", "close")
	}
	c.began = true
}

// timed gives the client its time for a write. No deadline is left behind: in HTTP/2 it would end
// the request while nothing is written.
func (c *client) timed(write func() error) error {
	_ = c.ctrl.SetWriteDeadline(time.Now().Add(c.pace))
	err := write()
	_ = c.ctrl.SetWriteDeadline(time.Time{})
	return err
}

func (c *client) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		c.begin()
	}
	_ = c.timed(func() error { c.ResponseWriter.WriteHeader(status); return nil })
}

func (c *client) Write(p []byte) (int, error) {
	c.begin()
	for sent := 0; ; {
		err := c.timed(func() error {
			n, err := c.ResponseWriter.Write(p[sent:min(len(p), sent+Piece)])
			sent += n
			return err
		})
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// FlushError is for http.ResponseController.
func (c *client) FlushError() error {
	c.begin()
	return c.timed(c.ctrl.Flush)
}

// Read reads the body.
func (c *client) Read(p []byte) (int, error) {
	c.limitRead(time.Now().Add(c.pace))
	n, err := c.body.Read(p)
	if err == io.EOF {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
	}
	// Behind a body the server listens for the client's going, without a limit.
	c.limitRead(time.Time{})
	return n, err
}

// Close closes the body.
func (c *client) Close() error { return c.body.Close() }

func (c *client) limitRead(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.ctrl.SetReadDeadline(until)
	}
}

// end is for the end of the handler. The server sends what it still holds of the answer, reads what
// is left of the body, and takes both deadlines away.
func (c *client) end() {
	c.begin()
	_ = c.ctrl.SetWriteDeadline(time.Now().Add(c.pace))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.body != nil && !c.ended {
		_ = c.ctrl.SetReadDeadline(time.Now().Add(linger))
	}
}
