package httpserver

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Piece is how much of an answer, in bytes, is sent under one deadline, in however many parts it is
// written. What a handler of Paced flushes ends a piece.
const Piece = 64 << 10

// Pieces is the account of what one client sends or takes: how long each [Piece] may still take.
type Pieces struct {
	Pace  time.Duration // what each has
	spent time.Duration // by the one that is under way
	done  int           // bytes of it
}

// Left is what the rest of the piece that is under way has.
func (p *Pieces) Left() time.Duration { return p.Pace - p.spent }

func (p *Pieces) room() int { return Piece - p.done }

// Add counts n bytes for which the client was waited for. Time in which it was not does not count.
func (p *Pieces) Add(n int, took time.Duration) {
	p.spent += took
	if p.done += n; p.done >= Piece {
		p.Next()
	}
}

// Next ends the piece that is under way.
func (p *Pieces) Next() { p.spent, p.done = 0, 0 }

// DeadlinesAreTimers tells whether the deadlines of a request's http.ResponseController are timers,
// as they are in HTTP/2: the write deadline resets the stream when it is over, the read deadline
// ends the body, also while nothing is written or read. So they have to be taken away after each
// write and each read.
func DeadlinesAreTimers(r *http.Request) bool { return r.ProtoMajor >= 2 }

// Paced returns a handler that gives each request's client these deadlines, see Config. It does
// nothing below another one.
func Paced(next http.Handler, pace, body time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(*client); ok {
			next.ServeHTTP(w, r)
			return
		}
		c := &client{ResponseWriter: w, ctrl: http.NewResponseController(w),
			pieces: Pieces{Pace: pace}, timers: DeadlinesAreTimers(r)}
		if r.Body != nil && r.ContentLength != 0 {
			// A refusal is sent at once, and not when the body that nobody wants has come.
			_ = c.ctrl.EnableFullDuplex()
			// also of a body that nobody reads: the server takes it off the connection after the
			// answer
			if body > 0 {
				_ = c.ctrl.SetReadDeadline(time.Now().Add(body))
			}
			c.body = &upload{ReadCloser: r.Body, ctrl: c.ctrl}
			r.Body = c.body
		}
		next.ServeHTTP(c, r)
		c.begin() // a handler that has written nothing
		c.pieces.Next()
		c.extend()
	})
}

// refuse answers for the handler, which does not see the request: at once, and not when its body
// has come. The client has a second for the rest of that and for taking the answer, for nobody else
// may pace it.
func refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	ctrl := http.NewResponseController(w)
	if r.ContentLength != 0 {
		if !DeadlinesAreTimers(r) {
			w.Header().Set("Connection", "close") // what is left of the body is no request
		}
		_ = ctrl.EnableFullDuplex()
		_ = ctrl.SetReadDeadline(time.Now().Add(time.Second))
	}
	_ = ctrl.SetWriteDeadline(time.Now().Add(time.Second))
	http.Error(w, text, status)
	_ = ctrl.Flush()
}

// client is one that has to take its answer piece by piece, each in time.
type client struct {
	http.ResponseWriter
	ctrl   *http.ResponseController
	pieces Pieces
	body   *upload // nil: there is none
	began  bool    // the answer has
	timers bool    // see DeadlinesAreTimers
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// begin is for the beginning of the answer. One that begins before the request's body has ended is
// the connection's last: in full duplex the server takes whatever is left of a body that broke off
// for the next request. Not in HTTP/2, where the rest is of a stream of its own.
func (c *client) begin() {
	if !c.began && c.body != nil && !c.body.ended.Load() && !c.timers {
		c.Header().Set("Connection", "close")
	}
	c.began = true
}

// extend gives the client the time for the rest of its piece, or for what the server still holds of
// the answer at its end. The time between two writes is the handler's.
func (c *client) extend() {
	if c.pieces.Pace > 0 {
		// the server takes it away after the request
		_ = c.ctrl.SetWriteDeadline(time.Now().Add(c.pieces.Left()))
	}
}

// rest takes the deadline away behind a write.
func (c *client) rest() {
	if c.pieces.Pace > 0 && c.timers {
		_ = c.ctrl.SetWriteDeadline(time.Time{})
	}
}

// FlushError is for http.ResponseController.
func (c *client) FlushError() error {
	c.extend()
	err := c.ctrl.Flush()
	c.rest()
	if err == nil {
		c.pieces.Next()
	}
	return err
}

func (c *client) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		c.begin()
	}
	c.extend()
	c.ResponseWriter.WriteHeader(status)
	c.rest()
}

func (c *client) Write(p []byte) (int, error) {
	c.begin()
	sent := 0
	for {
		part := p[sent:min(len(p), sent+c.pieces.room())]
		c.extend()
		begin := time.Now()
		n, err := c.ResponseWriter.Write(part)
		c.rest()
		c.pieces.Add(n, time.Since(begin))
		if sent += n; err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// upload is a request's body.
type upload struct {
	io.ReadCloser
	ctrl  *http.ResponseController
	ended atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		u.ended.Store(true)
		// from here on the server listens for the client's going
		_ = u.ctrl.SetReadDeadline(time.Time{})
	}
	return n, err
}
