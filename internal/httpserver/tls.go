package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// tlsListener's connections speak TLS. The heads are counted above it, in what was decrypted.
type tlsListener struct {
	net.Listener
	server *Server
}

func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raw := &rawConn{Conn: c, left: HeaderBytes}
	return &tlsConn{Conn: tls.Server(raw, l.server.tls), raw: raw, server: l.server}, nil
}

// rawConn is what is below TLS. It bounds what the client sends before the two have agreed: a chain
// of certificates is held in memory as a whole.
type rawConn struct {
	net.Conn
	left   int // bytes; counted until then
	agreed bool
}

func (c *rawConn) Read(p []byte) (int, error) {
	if c.agreed {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes before the end of the handshake", HeaderBytes)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// tlsConn shakes hands at the first read, which is within the time that the first head has.
type tlsConn struct {
	*tls.Conn
	raw    *rawConn
	server *Server
	broken atomic.Bool // a write has failed
}

func (c *tlsConn) Read(p []byte) (int, error) {
	if !c.raw.agreed {
		if err := c.Handshake(); err != nil {
			c.refuse(err)
			return 0, io.EOF // which net/http does not answer
		}
		c.raw.agreed = true
	}
	return c.Conn.Read(p)
}

// refuse tells a client that speaks HTTP without TLS so.
func (c *tlsConn) refuse(err error) {
	c.server.logf("http: TLS handshake error from %s: %v", c.RemoteAddr(), err)
	other, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || other.Conn == nil ||
		bytes.ContainsFunc(other.RecordHeader[:3], notUpper) {
		return
	}
	var more bytes.Buffer
	_ = c.server.withoutTLS.Header.Write(&more) // it fails as the buffer does: never
	_ = lastAnswer(c.raw.Conn, http.StatusBadRequest, more.String(),
		c.server.withoutTLS.Text)
}

// notUpper tells what no method of HTTP begins with.
func notUpper(r rune) bool { return r < 'A' || r > 'Z' }

func (c *tlsConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// Close says goodbye, by which a client knows that an answer without a length is whole. The goodbye
// would wait 5 s for a client that does not read.
func (c *tlsConn) Close() error {
	if c.broken.Load() || c.server.ending.Load() {
		return c.raw.Close()
	}
	return c.Conn.Close()
}

// abort closes a connection without waiting for its client.
func abort(c net.Conn) error {
	if h, ok := c.(*headConn); ok {
		c = h.Conn
	}
	if t, ok := c.(*tlsConn); ok {
		c = t.raw
	}
	return c.Close()
}

// lastAnswer answers in net/http's place, which has no request yet. More are lines of headers. What
// the client sends beside is read for a moment: a connection that is closed before loses the
// answer.
func lastAnswer(c net.Conn, status int, more, text string) error {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n%s"+
		"Connection: close\r\n\r\n%s\n", status, http.StatusText(status), more, text)
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.Join(err, c.Close())
	}
	if err = errors.Join(err, half.CloseWrite()); err == nil {
		_ = c.SetReadDeadline(time.Now().Add(refusedLast))
		_, _ = io.CopyN(io.Discard, c, 2*HeaderBytes)
	}
	return err
}

// refusedLast is how long the rest of what was refused is read.
const refusedLast = 500 * time.Millisecond

// Shutdown is as http.Server's. TLS connections are closed without a goodbye from then on.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	return s.Server.Shutdown(ctx)
}

// Close is as http.Server's.
func (s *Server) Close() error {
	s.ending.Store(true)
	return s.Server.Close()
}
