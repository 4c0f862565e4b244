package onzk_test

import (
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/coordd/coordd/internal/testkit"
)

// refusing is a connection whose answers to credentials say that they are refused, as long as
// refuses says so, and then breaks, as ZooKeeper's do.
type refusing struct {
	net.Conn
	refuses *atomic.Bool
	asked   *atomic.Int32
	xid     atomic.Uint32 // of the last one
}

func (r *refusing) Write(request []byte) (int, error) {
	const setAuth = 100
	if len(request) >= 12 && binary.BigEndian.Uint32(request[8:]) == setAuth && r.refuses.Load() {
		r.asked.Add(1)
		r.xid.Store(binary.BigEndian.Uint32(request[4:]))
	}
	return r.Conn.Write(request)
}

func (r *refusing) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if xid := r.xid.Load(); n >= 16 && xid != 0 && binary.BigEndian.Uint32(b) == xid {
		const authFailed = -115
		failed := int32(authFailed)
		binary.BigEndian.PutUint32(b[12:], uint32(failed))
		time.AfterFunc(time.Millisecond, func() { _ = r.Conn.Close() })
	}
	return n, err
}

// A server that refuses the credentials is asked less and less often, and the log says once that it
// does. When it takes them the candidate leads.
func TestCredentialsThatAreRefusedAreSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var log testkit.Output
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		var refuses atomic.Bool
		var asked atomic.Int32
		refuses.Store(true)
		way := s.zoo.Way(devzookeeper.Weather{})
		conn := s.connect(onzk.Config{Digest: "coordd:secret", Dial: func(network, address string,
			timeout time.Duration) (net.Conn, error) {
			c, err := way.Dial(network, address, timeout)
			if err != nil {
				return nil, err
			}
			return &refusing{Conn: c, refuses: &refuses, asked: &asked}, nil
		}})
		defer conn.Close()
		e := s.nominate(conn, "n1")
		time.Sleep(5 * time.Minute)
		if n := strings.Count(log.String(), "zookeeper-refuses-credentials"); n != 1 {
			t.Errorf("the log says it %d times", n)
		}
		if n := asked.Load(); n < 30 || n > 100 {
			t.Errorf("the server was asked %d times in five minutes", n)
		}
		refuses.Store(false)
		begin := time.Now()
		becomes(t, e, election.Leading)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("the candidate leads %v after its credentials are taken", took)
		}
		e.Resign()
		<-e.Done()
	})
}
