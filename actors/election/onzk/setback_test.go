package onzk_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election/onzk"
)

// script is the ends of a connection: the client's, behind a dialer, and a server's.
type script struct {
	t              *testing.T
	client, server net.Conn
}

// piped is a dialer whose servers are at the other end of pipes.
func piped() (d *onzk.Dialer, servers chan net.Conn) {
	servers = make(chan net.Conn, 1)
	return &onzk.Dialer{Base: func(string, string, time.Duration) (net.Conn, error) {
		client, server := net.Pipe()
		servers <- server
		return client, nil
	}}, servers
}

func dialed(t *testing.T, d *onzk.Dialer, servers <-chan net.Conn) *script {
	t.Helper()
	c, err := d.Dial("tcp", "10.0.0.1:2181", time.Second)
	must(t, err)
	s := &script{t: t, client: c}
	select {
	case s.server = <-servers:
	default: // no server was dialed
	}
	return s
}

func packet(numbers ...any) []byte {
	var b bytes.Buffer
	for _, n := range numbers {
		_ = binary.Write(&b, binary.BigEndian, n)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(b.Len())), b.Bytes()...)
}

func (s *script) read(from net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(from, body)
	return body, err
}

// handshake asks for a session, and returns the zxid that the server was told.
func (s *script) handshake(zxid, session int64, timeout time.Duration) (told int64) {
	s.t.Helper()
	ms := int32(timeout / time.Millisecond)
	key := make([]byte, 16)
	go func() {
		_, _ = s.client.Write(packet(int32(0), zxid, ms, session, int32(16), key))
	}()
	asked, err := s.read(s.server)
	must(s.t, err)
	go func() { _, _ = s.server.Write(packet(int32(0), ms, int64(5), int32(16), key)) }()
	_, err = s.read(s.client)
	must(s.t, err)
	return int64(binary.BigEndian.Uint64(asked[4:]))
}

// answers has the server answer with these zxids, a byte at a time, and returns how many of the
// answers reached the client.
func (s *script) answers(zxids ...int64) (heard int) {
	go func() {
		for _, zxid := range zxids {
			for _, b := range packet(int32(1), zxid, int32(0), []byte("and more")) {
				_, _ = s.server.Write([]byte{b})
			}
		}
	}()
	for range zxids {
		if _, err := s.read(s.client); err != nil {
			return heard
		}
		heard++
	}
	return heard
}

// The client's zxid is left out once its lease has been over for a timeout. Then an answer from
// before that zxid reaches nobody, and if another one comes a timeout later the session is given
// up.
func TestNothingFromThePastIsHeardWithoutTheClientsZxid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		d, servers := piped()
		next := func(told, want int64, heard, most int) {
			t.Helper()
			if told != want || heard != most {
				t.Errorf("the server was told %d, not %d; %d answers were heard, and not %d", told,
					want, heard, most)
			}
		}
		s := dialed(t, d, servers)
		next(s.handshake(0, 0, timeout), 0, s.answers(100), 1)
		time.Sleep(10 * timeout)
		s = dialed(t, d, servers) // nobody renews the lease: it is the caller's own session
		next(s.handshake(100, 5, timeout), 100, s.answers(90), 1)
		d.Renew(true)
		time.Sleep(timeout - 100*time.Millisecond)
		s = dialed(t, d, servers)
		next(s.handshake(100, 5, timeout), 100, s.answers(90), 1) // an old one's, as it was asked
		time.Sleep(2 * timeout)
		s = dialed(t, d, servers)
		next(s.handshake(100, 5, timeout), 0, s.answers(0, -1, 100, 90), 4) // it is up to date
		time.Sleep(2 * timeout)
		s = dialed(t, d, servers)
		next(s.handshake(100, 5, timeout), 0, s.answers(0, -1, 99), 2)
		if d.Session() != 5 {
			t.Error("the session was given up for a server that is behind")
		}
		time.Sleep(timeout / 2)
		s = dialed(t, d, servers) // too early for another try
		next(s.handshake(100, 5, timeout), 100, s.answers(100), 1)
		for turn := range 2 { // twice in a row
			time.Sleep(2 * timeout)
			s = dialed(t, d, servers)
			next(s.handshake(100, 5, timeout), 0, s.answers(99), 0)
			if gone := d.Session() == 0; gone != (turn == 1) {
				t.Errorf("after %d answers from the past the session is over: %t", turn+1, gone)
			}
		}
		s = dialed(t, d, servers)
		if s.server != nil {
			t.Fatal("a server was dialed before the client knew")
		}
		_, err := s.client.Write(make([]byte, 44))
		must(t, err)
		answer, err := s.read(s.client)
		must(t, err)
		if session := binary.BigEndian.Uint64(answer[8:]); session != 0 {
			t.Errorf("the client is told of session %d", session)
		}
	})
}

// A server is behind once in an outage, and another one is up to date then. At the next outage,
// much later, a server that is behind is the first one again.
func TestAServerThatIsBehindOnceInEachOutageCostsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		d, servers := piped()
		s := dialed(t, d, servers)
		s.handshake(0, 0, timeout)
		s.answers(100)
		d.Renew(true)
		for outage := range 3 {
			time.Sleep(100 * timeout)
			s = dialed(t, d, servers)
			told, heard := s.handshake(100, 5, timeout), s.answers(99)
			if session := d.Session(); told != 0 || heard != 0 || session != 5 {
				t.Fatalf("outage %d: the server that is behind is told %d, %d of its answers are "+
					"heard, and the session is %d", outage, told, heard, session)
			}
			time.Sleep(2 * timeout)
			s = dialed(t, d, servers)
			told, heard = s.handshake(100, 5, timeout), s.answers(0, 100)
			if session := d.Session(); told != 0 || heard != 2 || session != 5 {
				t.Fatalf("outage %d: the server that is up to date is told %d, %d of its answers "+
					"are heard, and the session is %d", outage, told, heard, session)
			}
		}
	})
}
