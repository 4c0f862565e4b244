//go:build linux

package chaos_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay stands between a member and its Consul server. What it holds back it delivers when it is mended, as a
// network does that comes back: a request may arrive long after its sender has given up on it.
type relay struct {
	addr, server string

	mu       sync.Mutex
	mode     string
	changed  chan struct{} // closed when the mode changes
	listener net.Listener
	conns    map[net.Conn]bool
	closed   bool
	running  sync.WaitGroup
}

// What a relay does with a connection.
const (
	pass   = "pass"
	refuse = "refuse" // nobody listens, and what was connected is reset
	freeze = "freeze" // connections are accepted, and nothing moves
	deaf   = "deaf"   // requests do not arrive, answers do
	mute   = "mute"   // requests arrive, answers do not
)

// newRelay listens below the ports that the kernel hands out, and above those of package realconsul: a port that
// refuses for a while must not become somebody's.
func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	r := &relay{server: server, mode: pass, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	for range 200 {
		r.addr = fmt.Sprintf("127.0.0.1:%d", 28100+rand.IntN(4500))
		if err := r.listen(); err == nil {
			t.Cleanup(r.close)
			return r
		}
	}
	t.Fatal("no port for a relay")
	return nil
}

func (r *relay) listen() error {
	l, err := net.Listen("tcp", r.addr)
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

// set changes the mode. Errors: none but for a port that was taken meanwhile.
func (r *relay) set(mode string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || mode == r.mode {
		return nil
	}
	old := r.mode
	if old == refuse {
		if err := r.listen(); err != nil {
			return err
		}
	}
	r.mode = mode
	close(r.changed)
	r.changed = make(chan struct{})
	if mode == refuse {
		r.listener.Close()
		r.reset()
	}
	return nil
}

func (r *relay) reset() {
	for c := range r.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
	clear(r.conns)
}

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	close(r.changed)
	r.changed = make(chan struct{})
	r.listener.Close()
	r.reset()
	r.mu.Unlock()
	r.running.Wait()
}

// keep takes a connection into those that are reset; false: it is too late.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.mode == refuse {
		c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *relay) drop(c net.Conn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
	c.Close()
}

// open waits until what goes in this direction may pass; false: the relay is gone.
func (r *relay) open(toServer bool) bool {
	for {
		r.mu.Lock()
		mode, changed, closed := r.mode, r.changed, r.closed
		r.mu.Unlock()
		switch {
		case closed:
			return false
		case mode == pass, mode == mute && toServer, mode == deaf && !toServer:
			return true
		case mode == refuse:
			return true // the connection is reset: the next write says so
		}
		<-changed
	}
}

func (r *relay) serve(client net.Conn) {
	defer r.drop(client)
	if !r.open(true) {
		return
	}
	server, err := net.DialTimeout("tcp", r.server, 5*time.Second)
	if err != nil {
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // as the server itself would have answered
		}
		return
	}
	if !r.keep(server) {
		return
	}
	defer r.drop(server)
	var back sync.WaitGroup
	back.Go(func() { r.copy(client, server, false) })
	r.copy(server, client, true)
	back.Wait()
}

func (r *relay) copy(to, from net.Conn, toServer bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !r.open(toServer) {
			return
		}
		if n > 0 {
			if _, bad := to.Write(buf[:n]); bad != nil {
				err = errors.Join(err, bad)
			}
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

func TestTheRelayRefusesFreezesAndCutsOneWay(t *testing.T) {
	t.Parallel()
	// The server says what it hears, so that both directions can be told apart.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 16)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					heard <- lines.Text()
					fmt.Fprintln(c, "answer to "+lines.Text())
				}
			})
		}
	})
	r := newRelay(t, l.Addr().String())
	set := func(mode string) {
		t.Helper()
		if err := r.set(mode); err != nil {
			t.Fatal(err)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	say := func(c net.Conn, text string) {
		t.Helper()
		if _, err := fmt.Fprintln(c, text); err != nil {
			t.Fatal(err)
		}
	}
	const soon, never = 10 * time.Second, 200 * time.Millisecond
	hears := func(text string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != text {
				t.Fatalf("the server hears %q, not %q", got, text)
			}
		case <-time.After(soon):
			t.Fatalf("the server does not hear %q", text)
		}
	}
	answered := func(c net.Conn, wait time.Duration) string {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(line)
	}
	gets := func(c net.Conn, text string) {
		t.Helper()
		if got := answered(c, soon); got != "answer to "+text {
			t.Fatalf("the client gets %q for %q", got, text)
		}
	}

	c := dial()
	say(c, "1")
	hears("1")
	gets(c, "1")

	set(mute)
	say(c, "2")
	hears("2")
	if got := answered(c, never); got != "" {
		t.Fatalf("mute, and the client gets %q", got)
	}
	set(pass)
	gets(c, "2")

	set(deaf)
	say(c, "3")
	c.Close() // its sender gives up
	select {
	case got := <-heard:
		t.Fatalf("deaf, and the server hears %q", got)
	case <-time.After(never):
	}
	set(pass)
	hears("3") // late, from nobody

	set(freeze)
	c = dial()
	say(c, "4")
	if got := answered(c, never); got != "" || len(heard) > 0 {
		t.Fatalf("frozen, and the client gets %q", got)
	}
	set(pass)
	hears("4")
	gets(c, "4")

	set(refuse)
	if got, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Fatalf("refused, and the client gets %q", got)
	}
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Fatal("refused, and a connection is made")
	}
	set(pass)
	c = dial()
	say(c, "5")
	hears("5")
	gets(c, "5")

	c.Close()
	l.Close()
	r.close()
	served.Wait()
}
