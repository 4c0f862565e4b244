package onzk_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// panicking is a connection whose methods panic, but the one that lasts does as it should.
type panicking struct {
	net.Conn
	lasts string
}

func (p panicking) call(name string) {
	if name != p.lasts {
		panic("a host's " + name)
	}
}

func (p panicking) Read(b []byte) (int, error) {
	p.call("Read")
	return p.Conn.Read(b)
}

func (p panicking) Write(b []byte) (int, error) {
	p.call("Write")
	return p.Conn.Write(b)
}

func (p panicking) Close() error {
	p.call("Close")
	return p.Conn.Close()
}

func (p panicking) SetReadDeadline(t time.Time) error {
	p.call("SetReadDeadline")
	return p.Conn.SetReadDeadline(t)
}

func (p panicking) SetWriteDeadline(t time.Time) error {
	p.call("SetWriteDeadline")
	return p.Conn.SetWriteDeadline(t)
}

// A host's Dial may return nothing and no error, a nil pointer, or a connection whose methods
// panic: the client calls them in goroutines of its own, where that would end the process. It is a
// server that cannot be reached.
func TestAConnectionOfAHostsThatIsNoneEndsNothing(t *testing.T) {
	for name, bad := range map[string]func(net.Conn) net.Conn{
		"nothing":       func(net.Conn) net.Conn { return nil },
		"a nil pointer": func(net.Conn) net.Conn { return (*panicking)(nil) },
		"nothing works": func(c net.Conn) net.Conn { return panicking{Conn: c} },
		"Write":         func(c net.Conn) net.Conn { return panicking{c, "Write"} },
		"Read":          func(c net.Conn) net.Conn { return panicking{c, "Read"} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				way, left := s.zoo.Way(devzookeeper.Weather{}), 3
				conn := s.connect(onzk.Config{Dial: func(network, address string,
					timeout time.Duration) (net.Conn, error) {
					c, err := way.Dial(network, address, timeout)
					if err != nil || left == 0 {
						return c, err
					}
					left--
					return bad(c), nil
				}})
				e := s.nominate(conn, "n1")
				becomes(t, e, election.Leading)
				e.Resign()
				<-e.Done()
				conn.Close()
			})
		})
	}
}

// onceBad is a connection of which one method panics once, when it is armed.
type onceBad struct {
	net.Conn
	method string
	armed  *atomic.Bool
	held   chan struct{} // full while a method that has panicked holds what Close needs
	closed *atomic.Int64
}

func (o onceBad) call(name string) {
	if name == o.method && o.armed.CompareAndSwap(true, false) {
		o.held <- struct{}{}
		panic("a host's " + name)
	}
}

func (o onceBad) Read(b []byte) (int, error) {
	o.call("Read")
	return o.Conn.Read(b)
}

func (o onceBad) Write(b []byte) (int, error) {
	o.call("Write")
	return o.Conn.Write(b)
}

func (o onceBad) SetReadDeadline(t time.Time) error {
	o.call("SetReadDeadline")
	return o.Conn.SetReadDeadline(t)
}

func (o onceBad) SetWriteDeadline(t time.Time) error {
	if t.IsZero() { // after a Write
		o.call("SetWriteDeadline")
	}
	return o.Conn.SetWriteDeadline(t)
}

func (o onceBad) Close() error {
	o.held <- struct{}{}
	defer func() { <-o.held }()
	o.closed.Add(1)
	return o.Conn.Close()
}

// A method of a host's connection panics. The connection is closed, so that a Read under way ends
// and its socket is given back, and the client is connected again soon. Nobody waits for a Close
// that waits for what the panic has left locked.
func TestAHostsConnectionThatPanicsIsClosed(t *testing.T) {
	for _, c := range []struct {
		method string
		locked bool
		most   time.Duration // until the next connection
	}{
		{"Write", false, 100 * time.Millisecond}, {"Read", false, 100 * time.Millisecond},
		{"SetReadDeadline", false, 100 * time.Millisecond},
		{"SetWriteDeadline", false, 100 * time.Millisecond},
		// The Read under way ends with the client's wait for an answer.
		{"Write", true, onzk.DefaultSessionTimeout / 3},
	} {
		t.Run(fmt.Sprintf("%s, locked %t", c.method, c.locked), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				way := s.zoo.Way(devzookeeper.Weather{})
				var armed atomic.Bool
				var closed, dialed atomic.Int64
				held := make(chan struct{}, 1)
				var first net.Conn
				conn := s.connect(onzk.Config{Dial: func(network, address string,
					timeout time.Duration) (net.Conn, error) {
					conn, err := way.Dial(network, address, timeout)
					if err != nil || dialed.Add(1) > 1 {
						return conn, err
					}
					first = conn
					return onceBad{conn, c.method, &armed, held, &closed}, nil
				}})
				e := s.nominate(conn, "n1")
				becomes(t, e, election.Leading)
				defer func() { _ = first.Close() }()
				time.Sleep(onzk.DefaultSessionTimeout) // until no answer is under way
				armed.Store(true)
				for armed.Load() {
					time.Sleep(time.Millisecond)
				}
				if !c.locked {
					<-held
				}
				time.Sleep(c.most)
				if n := dialed.Load(); n != 2 {
					t.Errorf("%v after the panic it has dialed %d times", c.most, n)
				}
				if c.locked {
					<-held
				}
				synctest.Wait()
				if closed.Load() == 0 {
					t.Error("the connection is never closed")
				}
				if now := e.State().Get(); now.Role != election.Leading {
					t.Errorf("the leader is %v", now)
				}
				e.Resign()
				<-e.Done()
				conn.Close()
			})
		})
	}
}
