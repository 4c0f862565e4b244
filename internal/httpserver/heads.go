package httpserver

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// HeadLines is the most lines that a request's head may have.
const HeadLines = 256

// What heads take in memory. A head of many short lines takes 25 times as much as its text, so
// lines are counted too.
const ( // bytes
	// that a line takes beside its text: its place in a map, a slice, two strings
	headLine = 128
	ownHead  = 8 << 10  // that each connection has for itself
	allHeads = 32 << 20 // for what is beyond that, of all connections together
)

const noRoom = "other requests' headers take all the room that there is: ask again soon, or " +
	"with fewer"

var tooManyLines = fmt.Sprintf("a request may have %d lines of headers: send fewer", HeadLines)

// Server is an http.Server that limits what the heads of all requests together take.
type Server struct {
	*http.Server
	heads      heads
	tls        *tls.Config // nil: none is spoken
	withoutTLS Refusal
	ending     atomic.Bool // it is stopped
}

// Serve is as http.Server's, and speaks TLS if Config.TLS says how.
func (s *Server) Serve(ln net.Listener) error {
	if s.tls != nil {
		ln = &tlsListener{ln, s}
	}
	return s.Server.Serve(&listener{ln, &s.heads})
}

// heads are those of all connections of a server.
type heads struct {
	taken   atomic.Int64
	refused func(status int, h http.Header) // see Config
}

type listener struct {
	net.Listener
	heads *heads
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: c, heads: l.heads}, nil
}

// headConn counts what it reads of a request's head, before net/http makes a map of it.
type headConn struct {
	net.Conn
	heads *heads

	mu     sync.Mutex
	served bool // the head was read: what comes is the body's
	whole  bool // the head's last line is here
	bytes  int64
	lines  int64
	length int   // of the line that is not whole yet
	took   int64 // of the room for all
}

// hook follows connections for an http.Server, as its ConnState, before next does.
func (h *heads) hook(next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*headConn); ok {
			c.follow(state)
		}
		if next != nil {
			next(conn, state)
		}
	}
}

func (c *headConn) follow(state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = state != http.StateNew && state != http.StateIdle
	if state == http.StateActive || state == http.StateNew {
		return // the head is kept as long as its request
	}
	c.heads.taken.Add(-c.took)
	c.whole, c.bytes, c.lines, c.length, c.took = false, 0, 0, 0, 0
}

// Read refuses a head that is too much, and ends the connection with it.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.fits(p[:n]) {
		return 0, c.refuse(http.StatusServiceUnavailable, noRoom)
	}
	if c.tooLong() {
		return 0, c.refuse(http.StatusRequestHeaderFieldsTooLarge, tooManyLines)
	}
	return n, err
}

// tooLong tells whether there are too many lines. What comes behind the head is not counted.
func (c *headConn) tooLong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.served && c.lines > HeadLines
}

// check is for a head whose beginning, of 4 KiB at the most, may have come with the request before
// it, behind which nothing was counted: of a client that does not wait for answers. Status 0: it is
// not too much.
func (c *headConn) check(r *http.Request) (status int, why string) {
	lines, size := int64(1), int64(len(r.Method)+len(r.RequestURI)+len(r.Proto))
	if r.Host != "" {
		lines, size = lines+1, size+int64(len(r.Host))
	}
	for name, values := range r.Header {
		lines += int64(len(values))
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines, c.bytes = max(c.lines, lines), max(c.bytes, size)
	switch {
	case c.lines > HeadLines:
		return http.StatusRequestHeaderFieldsTooLarge, tooManyLines
	case !c.room():
		return http.StatusServiceUnavailable, noRoom
	}
	return 0, ""
}

// fits takes room for what was read, if it is a head's.
func (c *headConn) fits(read []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(read) > 0 && !c.served && !c.whole {
		line, rest, ended := bytes.Cut(read, []byte{'\n'})
		c.bytes += int64(len(read) - len(rest))
		c.length += len(bytes.TrimSuffix(line, []byte{'\r'}))
		read = rest
		if !ended {
			break
		}
		if c.length > 0 {
			c.lines++
		} else if c.lines > 0 { // before the first line there may be empty ones
			c.whole = true
		}
		c.length = 0
	}
	return c.room()
}

// room takes what the head needs beyond what it has. It needs c.mu.
func (c *headConn) room() bool {
	more := max(0, c.bytes+headLine*c.lines-ownHead) - c.took
	if more <= 0 {
		return true
	}
	if c.heads.taken.Add(more) > allHeads {
		c.heads.taken.Add(-more)
		return false
	}
	c.took += more
	return true
}

// refuse answers in net/http's place, which has no request yet.
func (c *headConn) refuse(status int, text string) error {
	h := http.Header{"Retry-After": {"1"}}
	c.heads.refused(status, h)
	var more strings.Builder
	_ = h.Write(&more) // it fails as the builder does: never
	_ = lastAnswer(c.Conn, status, more.String(), text)
	return io.EOF // which net/http does not answer
}

// CloseWrite tells the other end that nothing more comes.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
