package devconsul

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const tooManyConns = "Your IP is issuing too many concurrent connections, please rate limit " +
	"your calls\n"

// connLimit counts the connections of each client address. Each long poll holds one, and all
// processes of a host share one count, so large services meet the limit.
type connLimit struct {
	limit int

	mu    sync.Mutex
	count map[string]int
	conns map[net.Conn]string
}

func newConnLimit(limit int) *connLimit {
	return &connLimit{limit: limit, count: make(map[string]int), conns: make(map[net.Conn]string)}
}

// hook follows connections for an http.Server, as its ConnState.
func (l *connLimit) hook(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !l.take(c) {
			// Consul's 10 ms may be over, on a busy machine, before the text has been sent. The
			// socket is new and its buffer empty: the accept loop, which runs this, does not wait
			// here.
			c.SetDeadline(time.Now().Add(time.Second))
			// Unasked: the client reads it as the answer to what it is about to send.
			fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\n"+
				"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(tooManyConns),
				tooManyConns)
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.give(c)
	}
}

func (l *connLimit) take(c net.Conn) bool {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil || l.limit < 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[host] >= l.limit {
		return false
	}
	l.count[host]++
	l.conns[c] = host
	return true
}

func (l *connLimit) give(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if host, ok := l.conns[c]; ok {
		delete(l.conns, c)
		if l.count[host]--; l.count[host] == 0 {
			delete(l.count, host)
		}
	}
}
