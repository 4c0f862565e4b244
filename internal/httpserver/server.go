package httpserver

import (
	"cmp"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"time"
)

// HeaderBytes is the most that a request's head may have: its first line and its headers.
const HeaderBytes = 64 << 10

// Config says what is served and within which limits.
type Config struct {
	Handler http.Handler
	// Conns is the most connections that are open at one time. 0: any number.
	Conns int
	// Always names the requests that are answered also when all places are taken, such as one that
	// asks for the process's health; but for those with a body. Nil: none.
	Always func(*http.Request) bool
	// Header is how long a request's headers may take to arrive. Default: 5 s.
	Header time.Duration
	// Idle is how long a connection may wait for its next request. Default: 1 min.
	Idle time.Duration
	// Pace is how long each piece of an answer may take to be read. 0: the handler sees to it.
	Pace time.Duration
	// Body is how long a request's body may take to arrive. 0: the handler sees to it.
	Body time.Duration
	// Hosts are the names that requests may be for. Nil: any.
	Hosts *Hosts
	// Refused adds to the headers of what is refused here: 403 for want of a name, 503 for want of a
	// place or of room for headers, 431 for too many of them. Nil: nothing. What net/http refuses
	// by itself it does not see.
	Refused func(status int, h http.Header)
	// ConnState is called as http.Server.ConnState is, for connections that got a place.
	ConnState func(net.Conn, http.ConnState)
	// TLS is how TLS is spoken, and then HTTP/1.1 only. It needs a certificate. Nil: no TLS.
	TLS *tls.Config
	// WithoutTLS is the answer to a client that speaks no TLS although TLS says how.
	WithoutTLS Refusal
	// ErrorLog is where net/http complains. Nil: where it does by default.
	ErrorLog *log.Logger
}

// Refusal is an answer with the status 400.
type Refusal struct {
	Header http.Header
	Text   string // a line. Default: to ask with https://.
}

// New returns a server that holds to the limits of c.
func New(c Config) *Server {
	if c.Header == 0 {
		c.Header = 5 * time.Second
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Refused == nil {
		c.Refused = func(int, http.Header) {}
	}
	h := c.Handler
	if c.Hosts != nil {
		h = c.Hosts.only(h, c.Refused)
	}
	s := &Server{Server: &http.Server{
		ReadHeaderTimeout: c.Header, IdleTimeout: c.Idle, MaxHeaderBytes: HeaderBytes,
		ReadTimeout: 2 * c.Header, // of what net/http refuses before a handler sees it: see seen
		ErrorLog:    c.ErrorLog, ConnState: c.ConnState,
		// Its own answer to OPTIONS * waits for a body for ever.
		DisableGeneralOptionsHandler: true,
	}, heads: heads{refused: c.Refused}, tls: c.TLS, withoutTLS: c.WithoutTLS}
	if s.tls != nil {
		s.tls = s.tls.Clone()
		s.tls.NextProtos = []string{"http/1.1", "http/1.0"}
		s.withoutTLS.Text = cmp.Or(s.withoutTLS.Text, "this server speaks TLS: ask with https://")
	}
	if c.Conns > 0 {
		p := newPlaces(c.Conns, c.ConnState)
		h = p.only(h, c.Always, c.Refused)
		s.ConnState = p.hook
	}
	if c.Pace > 0 || c.Body > 0 {
		h = Paced(h, c.Pace, c.Body)
	}
	s.Handler, s.ConnState = s.heads.seen(h), s.heads.hook(s.ConnState)
	s.ConnContext = withConn
	return s
}

// logf complains of a client.
func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// seen looks at the head once more, and takes the deadline away that a request's body has until a
// handler sees the request: whoever serves it sets another.
func (h *heads) seen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*headConn); ok {
			if status, why := c.check(r); status != 0 {
				w.Header().Set("Connection", "close")
				w.Header().Set("Retry-After", "1")
				h.refused(status, w.Header())
				refuse(w, r, status, why)
				return
			}
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		next.ServeHTTP(w, r)
	})
}
