package httpserver

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// HeaderBytes is the most that a request's head may have, as http.Server.MaxHeaderBytes.
const HeaderBytes = 64 << 10

// idle is how long a connection may wait for its next request.
const idle = time.Minute

// Config says what is served and within which limits.
type Config struct {
	Handler http.Handler
	// Conns is the most connections that are open at one time. 0: any number.
	Conns int
	// Header is how long a request's head may take to arrive. Default: 5 s.
	Header time.Duration
	// ConnState is as http.Server.ConnState.
	ConnState func(net.Conn, http.ConnState)
	// TLS is how TLS is spoken. It needs a certificate. Nil: no TLS.
	TLS *tls.Config
	// ErrorLog is where net/http complains. Nil: where it does by default.
	ErrorLog *log.Logger
}

// Server is an http.Server with a limit of connections.
type Server struct {
	*http.Server
	conns int
}

// New returns a server that holds to the limits of c.
func New(c Config) *Server {
	if c.Header == 0 {
		c.Header = 5 * time.Second
	}
	s := &Server{&http.Server{
		Handler: c.Handler, ReadHeaderTimeout: c.Header, IdleTimeout: idle,
		MaxHeaderBytes: HeaderBytes, ConnState: c.ConnState, TLSConfig: c.TLS,
		ErrorLog: c.ErrorLog, Protocols: new(http.Protocols),
		// Its answer to OPTIONS * waits for a body without a limit.
		DisableGeneralOptionsHandler: true,
	}, c.Conns}
	s.Protocols.SetHTTP1(true)
	return s
}

// Serve is as http.Server's, and speaks TLS if Config.TLS says how.
func (s *Server) Serve(ln net.Listener) error {
	if s.conns > 0 {
		ln = &limitedListener{Listener: ln, places: make(chan struct{}, s.conns),
			closed: make(chan struct{})}
	}
	if s.TLSConfig != nil {
		return s.ServeTLS(ln, "", "")
	}
	return s.Server.Serve(ln)
}

// limitedListener accepts a connection when there is a place for it.
type limitedListener struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placedConn gives its place back when it is closed.
type placedConn struct {
	net.Conn
	leave func()
}

func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite tells the client that nothing more comes: net/http does before it closes a connection,
// and a proxy when the other side of an upgraded one has ended.
func (c *placedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
