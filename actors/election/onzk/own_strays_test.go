package onzk_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/go-zookeeper/zk"
)

// Creates whose answers were lost have left nodes of a candidate's own before its node. It waits
// for none of them, and removes them: those behind it would wait for them.
func TestACandidateWaitsForNoNodeOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		one := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer one.Close()
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		first := s.nominate(two, "n0")
		becomes(t, first, election.Leading)
		a := s.nominate(one, "n1")
		becomes(t, a, election.Following)
		base := onzk.DefaultRoot + "/demo"
		own := ""
		for name, node := range s.zoo.Nodes(base) {
			if strings.HasPrefix(name, "_c_") && bytes.Contains(node.Data, []byte(`"n1"`)) {
				own = name
			}
		}
		stray := func(sequence int, conn *onzk.Conn) {
			t.Helper()
			_, err := conn.ZK().Create(base+"/"+own[:len(own)-10]+fmt.Sprintf("%010d", sequence),
				[]byte(`{}`), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			must(t, err)
		}
		stray(0, two) // of a session before, which lives still
		for n := range 3 {
			stray(n+1, one)
		}
		b := s.nominate(two, "n2")
		becomes(t, b, election.Following)
		first.Resign()
		<-first.Done()
		becomes(t, a, election.Leading)
		candidates := 0
		for name := range s.zoo.Nodes(base) {
			if strings.HasPrefix(name, "_c_") {
				candidates++
			}
		}
		if candidates != 3 { // a's, b's, and that of another session
			t.Errorf("%d candidates are left", candidates)
		}
		electiontest.Resign(a, b)
	})
}

// always has every server behind as far as it can be.
type always struct{}

func (always) Uint64() uint64 { return 1<<63 | 1 }

// lossy is a connection that passes the first creation of a candidate's node on, and breaks before
// the answer is heard, as long as left is not 0.
type lossy struct {
	net.Conn
	left *atomic.Int32
	deaf atomic.Bool
}

func (l *lossy) Write(request []byte) (int, error) {
	const multi = 14 // the kind of a transaction
	if len(request) >= 12 && binary.BigEndian.Uint32(request[8:]) == multi &&
		bytes.Contains(request, []byte("/_c_")) && l.left.Add(-1) >= 0 {
		l.deaf.Store(true)
		time.AfterFunc(20*time.Millisecond, func() { _ = l.Conn.Close() })
	}
	return l.Conn.Write(request)
}

func (l *lossy) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if !l.deaf.Load() {
			return n, err
		}
		if err != nil {
			return 0, io.EOF
		}
	}
}

// The node of a create whose answer was lost is found, also where the next connection is to a
// server that is behind the others: a second node is not made.
func TestALostCreateIsFoundOnAServerThatIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		two := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer two.Close()
		first := s.nominate(two, "n0")
		becomes(t, first, election.Leading)
		var left atomic.Int32
		way := s.zoo.Way(devzookeeper.Weather{Rand: rand.New(always{}),
			Lag: 3 * time.Second})
		one := s.connect(onzk.Config{Dial: func(network, address string, timeout time.Duration) (
			net.Conn, error) {
			c, err := way.Dial(network, address, timeout)
			if err != nil {
				return nil, err
			}
			return &lossy{Conn: c, left: &left}, nil
		}})
		defer one.Close()
		time.Sleep(3500 * time.Millisecond) // a proof of the lease brings the server up to date
		left.Store(1)
		var made []string // candidates' nodes that ever were
		seen := map[string]bool{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for begin := time.Now(); time.Since(begin) < 30*time.Second; {
				for name := range s.zoo.Nodes(onzk.DefaultRoot + "/demo") {
					if strings.HasPrefix(name, "_c_") && !seen[name] {
						seen[name], made = true, append(made, name)
					}
				}
				time.Sleep(time.Millisecond)
			}
		}()
		a := s.nominate(one, "n1")
		becomes(t, a, election.Following)
		<-done
		if left.Load() >= 1 || len(made) != 2 {
			t.Errorf("lost: %t; the candidates' nodes have been %v", left.Load() < 1, made)
		}
		electiontest.Resign(first, a)
	})
}
