package onzk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"
)

// giveUp ends a session for this process, which ZooKeeper has not said to be over. It says nothing
// to ZooKeeper: the session ends there when its timeout is over, for nobody extends it any more.
// Candidates remove what they have in it by themselves (see leave), for until then its nodes are
// there, and a take that has waited for a connection wins in the next session.
// why follows the session's name. It does nothing if there is another session by now.
func (d *Dialer) giveUp(session int64, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == 0 || d.session != session || d.barred {
		return
	}
	d.why = fmt.Sprintf("session %s %s; ZooKeeper last heard of it at %s", sessionName(session),
		why, d.lease.start.Format("15:04:05.000"))
	d.session, d.conn, d.watching, d.behindSince = 0, nil, false, time.Time{}
	d.given, d.givenUp = true, append(d.givenUp, session)
	if d.newest != nil {
		_ = d.newest.Conn.Close()
	}
	d.publishLocked()
}

// gaveUp tells whether a session was given up. Its nodes may be there still.
func (d *Dialer) gaveUp(session int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.givenUp, session)
}

// renewing tells whether there is a session, and its lease is renewed: else it says nothing of a
// session that its caller uses before New and after Close. It needs d.mu.
func (d *Dialer) renewing() bool { return d.session != 0 && d.proving && !d.closed }

// expired returns what tells the client that the session is gone which was given up, in place of a
// connection; nil: the client knows. It needs d.mu.
func (d *Dialer) expired() net.Conn {
	if !d.given {
		return nil
	}
	d.given = false
	answer := make([]byte, 4+4+4+8+4+16) // a handshake's: session 0
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	binary.BigEndian.PutUint32(answer[answeredKey:], 16)
	return &expiredConn{answer: bytes.NewReader(answer)}
}

// expiredConn answers the client's handshake as ZooKeeper does when a session is gone.
type expiredConn struct {
	net.Conn // nil: the client uses nothing else of it
	answer   *bytes.Reader
}

func (e *expiredConn) Read(b []byte) (int, error)     { return e.answer.Read(b) }
func (*expiredConn) Write(b []byte) (int, error)      { return len(b), nil }
func (*expiredConn) Close() error                     { return nil }
func (*expiredConn) SetDeadline(time.Time) error      { return nil }
func (*expiredConn) SetReadDeadline(time.Time) error  { return nil }
func (*expiredConn) SetWriteDeadline(time.Time) error { return nil }
