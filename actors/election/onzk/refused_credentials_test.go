package onzk_test

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/coordd/coordd/internal/testkit"
)

// refusing is a way to servers whose answers to credentials say that they are refused, as long as
// refuses says so, and then break the connection, as ZooKeeper's do.
type refusing struct {
	*devzookeeper.Way
	refuses      atomic.Bool
	dials, asked atomic.Int32
}

func (r *refusing) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	r.dials.Add(1)
	c, err := r.Way.Dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	const authFailed = -115
	conn := &refusingConn{wrongAnswers{Conn: c, code: authFailed}, r}
	conn.then = func() { time.AfterFunc(time.Millisecond, func() { _ = c.Close() }) }
	return conn, nil
}

type refusingConn struct {
	wrongAnswers
	server *refusing
}

func (c *refusingConn) Write(request []byte) (int, error) {
	const setAuth = 100
	if xid, is := isOf(request, setAuth); is && c.server.refuses.Load() {
		c.server.asked.Add(1)
		c.xid.Store(xid)
	}
	return c.Conn.Write(request)
}

// A server that refuses the credentials is asked less and less often, and the log says once that it
// does. When it takes them the candidate leads.
func TestCredentialsThatAreRefusedAreSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var log testkit.Output
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		server := &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}
		server.refuses.Store(true)
		conn := s.connect(onzk.Config{Digest: "coordd:secret", Dial: server.Dial})
		defer conn.Close()
		e := s.nominate(conn, "n1")
		time.Sleep(5 * time.Minute)
		if n := strings.Count(log.String(), "zookeeper-refuses-credentials"); n != 1 {
			t.Errorf("the log says it %d times", n)
		}
		if n := server.asked.Load(); n < 30 || n > 100 {
			t.Errorf("the server was asked %d times in five minutes", n)
		}
		server.refuses.Store(false)
		begin := time.Now()
		becomes(t, e, election.Leading)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("the candidate leads %v after its credentials are taken", took)
		}
		e.Resign()
		<-e.Done()
	})
}

// Credentials that were taken once, and are refused later, are sent less and less often as well,
// and the log says it each time that it begins. When they are taken again the candidate goes on.
func TestCredentialsThatAreRefusedLaterAreSentSeldom(t *testing.T) {
	if racing {
		t.Skip("the client races with itself: see racing")
	}
	bubble(t, func(t *testing.T, s *embedded) {
		var log testkit.Output
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		server := &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}
		conn := s.connect(onzk.Config{Digest: "coordd:secret", Dial: server.Dial})
		defer conn.Close()
		e := s.nominate(conn, "n1")
		for turn := 1; turn <= 2; turn++ {
			becomes(t, e, election.Leading)
			time.Sleep(10 * time.Second)
			server.dials.Store(0)
			server.refuses.Store(true)
			server.Mend(true) // breaks the connections
			time.Sleep(5 * time.Second)
			if n := server.dials.Load(); n < 5 || n > 30 {
				t.Fatalf("turn %d: %d dials in five seconds", turn, n)
			}
			if n := strings.Count(log.String(), "zookeeper-refuses-credentials"); n != turn {
				t.Errorf("turn %d: the log says it %d times", turn, n)
			}
			server.refuses.Store(false)
			begin := time.Now()
			becomes(t, e, election.Leading)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("turn %d: it leads %v after its credentials are taken", turn, took)
			}
		}
		e.Resign()
		<-e.Done()
	})
}

// A leader whose credentials are refused from some moment on can do nothing, but each handshake
// keeps its session, and the leadership with it. When its lease is over it gives the session up.
func TestALeaderWhoseCredentialsAreRefusedLaterIsSucceeded(t *testing.T) {
	if racing {
		t.Skip("the client races with itself: see racing")
	}
	bubble(t, func(t *testing.T, s *embedded) {
		server := &refusing{Way: s.zoo.Way(devzookeeper.Weather{})}
		conn := s.connect(onzk.Config{Digest: "coordd:secret", Dial: server.Dial})
		defer conn.Close()
		a := s.nominate(conn, "a")
		becomes(t, a, election.Leading)
		other := s.connect(onzk.Config{Digest: "coordd:secret",
			Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer other.Close()
		b := s.nominate(other, "b")
		becomes(t, b, election.Following)
		time.Sleep(10 * time.Second)
		server.refuses.Store(true)
		server.Mend(true) // breaks the connections
		begin := time.Now()
		for b.State().Get().Role != election.Leading && time.Since(begin) < time.Hour {
			time.Sleep(time.Second)
		}
		const bound = 3*onzk.DefaultSessionTimeout + 2*devzookeeper.Tick
		if took := time.Since(begin); took > bound {
			t.Errorf("after %v a is %v, and b %v", took, a.State().Get(), b.State().Get())
		}
		if now := a.State().Get(); !errors.Is(now.Err, election.ErrSessionLost) {
			t.Errorf("it is told %v", now)
		}
		sessions := map[string]bool{}
		for range 600 {
			time.Sleep(time.Second)
			sessions[conn.Contact().Get().Session] = true
		}
		if len(sessions) > 2 {
			t.Errorf("its sessions in ten minutes were %v", sessions)
		}
		server.refuses.Store(false)
		c := s.nominate(conn, "c")
		becomes(t, c, election.Following)
		electiontest.Resign(b, c)
	})
}

// A pause before a dial is for connections that break again and again as soon as they stand.
func TestAConnectionThatBreaksIsMadeAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		way := s.zoo.Way(devzookeeper.Weather{})
		var dialed atomic.Int64
		conn := s.connect(onzk.Config{Dial: func(network, address string,
			timeout time.Duration) (net.Conn, error) {
			dialed.Store(time.Now().UnixNano())
			return way.Dial(network, address, timeout)
		}})
		defer conn.Close()
		e := s.nominate(conn, "n1")
		becomes(t, e, election.Leading)
		for n := range 10 {
			time.Sleep(1500 * time.Millisecond)
			begin := time.Now()
			way.Mend(true) // breaks the connections
			time.Sleep(time.Second)
			if took := time.Unix(0, dialed.Load()).Sub(begin); took < 0 || took > 10*time.Millisecond {
				t.Errorf("break %d: it is dialed again after %v", n+1, took)
			}
		}
		e.Resign()
		<-e.Done()
	})
}
