// Package relay stands between a client and a server of a test, and does to their connections what
// networks and proxies do.
//
//   - What a relay holds back it delivers when it is mended, as a network does that comes back: a
//     request may arrive long after its sender has given up on it.
//   - It may deliver HTTP requests a second time, at once or later, as a proxy does that tries
//     again: see [Relay.Repeat].
//   - After Close nothing of it is left: no connection, no goroutine, no request that waits for its
//     second delivery.
package relay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Relay takes connections at its address and passes them on to a server.
type Relay struct {
	// Addr is where it listens, host and port.
	Addr   string
	server string

	mu       sync.Mutex
	mode     Mode
	held     []string      // hosts
	most     time.Duration // see Repeat
	repeated int
	changed  chan struct{} // closed when any of these changes
	listener net.Listener
	conns    map[net.Conn]bool
	closed   chan struct{}
	running  sync.WaitGroup
}

// Mode is what a relay does with its connections.
type Mode string

// The modes. A new relay passes everything.
const (
	Pass   Mode = "pass"
	Refuse Mode = "refuse" // nobody listens, and what was connected is reset
	Freeze Mode = "freeze" // connections are accepted, and nothing moves
	Deaf   Mode = "deaf"   // requests do not arrive, answers do
	Mute   Mode = "mute"   // requests arrive, answers do not
)

// New starts a relay for this test. It listens below the ports that the kernel hands out, and above
// those of package realserver: a port that refuses for a while must not become somebody's.
func New(t testing.TB, server string) *Relay {
	t.Helper()
	for range 200 {
		if r, err := Listen(fmt.Sprintf("127.0.0.1:%d", 28100+rand.IntN(4500)),
			server); err == nil {
			t.Cleanup(r.Close)
			return r
		}
	}
	t.Fatal("no port for a relay")
	return nil
}

// Listen starts a relay at an address. Close ends it.
func Listen(addr, server string) (*Relay, error) {
	r := &Relay{Addr: addr, server: server, mode: Pass, changed: make(chan struct{}),
		closed: make(chan struct{}), conns: map[net.Conn]bool{}}
	if err := r.listen(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Relay) listen() error {
	l, err := net.Listen("tcp", r.Addr)
	if err != nil {
		return err
	}
	r.listener = l
	r.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r.keep(c) {
				r.running.Go(func() { r.serve(c) })
			}
		}
	})
	return nil
}

// Set changes the mode. Errors: none but for a port that was taken meanwhile.
func (r *Relay) Set(mode Mode) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() || mode == r.mode {
		return nil
	}
	if r.mode == Refuse {
		if err := r.listen(); err != nil {
			return err
		}
	}
	r.mode = mode
	r.wake()
	if mode == Refuse {
		r.listener.Close()
		r.reset()
	}
	return nil
}

// Hold lets nothing move, either way, in connections from these hosts, and lets those from all
// others go on.
func (r *Relay) Hold(hosts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held = hosts; !r.over() {
		r.wake()
	}
}

func (r *Relay) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) over() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

func (r *Relay) reset() {
	for c := range r.conns {
		abort(c)
		c.Close()
	}
	clear(r.conns)
}

// abort makes the close of a connection say that it has failed.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// Close ends the relay and all that goes through it. It may be called once.
func (r *Relay) Close() {
	r.mu.Lock()
	close(r.closed)
	r.listener.Close()
	r.reset()
	r.mu.Unlock()
	r.running.Wait()
}

// keep takes a connection into those that are reset; false: it is too late.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() || r.mode == Refuse {
		abort(c)
		c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *Relay) drop(c net.Conn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	c.Close()
}

// open waits until what goes in this direction, in a connection from this host, may pass; false:
// the relay is gone.
func (r *Relay) open(host string, toServer bool) bool {
	for {
		r.mu.Lock()
		mode, held, changed := r.mode, slices.Contains(r.held, host), r.changed
		r.mu.Unlock()
		switch {
		case r.over():
			return false
		case mode == Refuse:
			return true // the connection is reset: the next write says so
		case !held && (mode == Pass || mode == Mute && toServer || mode == Deaf && !toServer):
			return true
		}
		select {
		case <-changed:
		case <-r.closed:
		}
	}
}

func (r *Relay) serve(client net.Conn) {
	defer r.drop(client)
	host := ""
	if from, ok := client.RemoteAddr().(*net.TCPAddr); ok {
		host = from.IP.String()
	}
	if !r.open(host, true) {
		return
	}
	server, err := net.DialTimeout("tcp", r.server, 5*time.Second)
	if err != nil {
		abort(client) // as the server itself would have answered
		return
	}
	if !r.keep(server) {
		return
	}
	defer r.drop(server)
	var back sync.WaitGroup
	back.Go(func() { r.copy(client, server, host, false) })
	r.copy(server, client, host, true)
	back.Wait()
}

func (r *Relay) copy(to, from net.Conn, host string, toServer bool) {
	var along *tap
	if toServer {
		along = r.tapped()
		defer along.close()
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !r.open(host, toServer) {
			return
		}
		if n > 0 {
			most := r.repeats() // before the answer can be there
			if _, bad := to.Write(buf[:n]); bad != nil {
				err = errors.Join(err, bad)
			}
			along.copy(buf[:n], most)
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			if !toServer {
				to.Close() // the server is done: the client must not wait to be told
			}
			return
		}
	}
}
