package onzk_test

import (
	"net"
	"testing"
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
