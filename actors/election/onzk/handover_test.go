package onzk_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// distant is a connection on which all that the server says comes later, one packet after the
// other.
type distant struct {
	net.Conn
	by   time.Duration
	said chan said
	rest []byte
	last time.Time // when the last packet came
}

// apart is the least time between two packets of a distant connection.
const apart = 200 * time.Microsecond

type said struct {
	at   time.Time
	what []byte
}

func newDistant(conn net.Conn, by time.Duration) *distant {
	d := &distant{Conn: conn, by: by, said: make(chan said, 1000)}
	go func() {
		defer close(d.said)
		for {
			what := make([]byte, 4096)
			n, err := conn.Read(what)
			if n > 0 {
				d.said <- said{time.Now(), what[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *distant) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		s, ok := <-d.said
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(max(time.Until(s.at.Add(d.by)), apart-time.Since(d.last)))
		d.rest, d.last = s.what, time.Now()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// The next leader hears that the last one has given up, reads at one time all that it needs, and
// writes: three ways of the server's words. zk.Lock has two, and reads only. It hears that the last
// leader's place in the queue is free just before it hears that nobody leads.
func TestAHandOverReadsOnceBeforeItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.zoo.Close()
		const way = 10 * time.Millisecond
		all := [3]*election.Election{}
		for i, name := range []string{"a", "b", "c"} {
			conn := s.connect(onzk.Config{Dial: func(network, address string,
				timeout time.Duration) (net.Conn, error) {
				c, err := s.zoo.Way(devzookeeper.Weather{}).Dial(network, address, timeout)
				if err != nil {
					return nil, err
				}
				return newDistant(c, way), nil
			}})
			defer conn.Close()
			all[i] = s.nominate(conn, name)
			time.Sleep(time.Second)
		}
		for i, e := range all {
			becomes(t, e, election.Leading)
			time.Sleep(20 * time.Second)
			begin := time.Now()
			e.Resign()
			if i+1 < len(all) {
				becomes(t, all[i+1], election.Leading)
				if d := time.Since(begin); d >= 4*way {
					t.Errorf("%d leads after %v, and one answer takes %v", i+1, d, way)
				}
			}
			<-e.Done()
		}
	})
}
