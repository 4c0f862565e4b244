package onzk

import (
	"encoding/binary"
	"errors"
	"time"
)

var errSetBack = errors.New("ZooKeeper is behind what this client has seen")

// setBack finds out whether ZooKeeper has lost what it had, or was restored from before. Its
// servers refuse a client then that has seen a later zxid than they have: they end the connection
// without an answer, as do servers without a majority. So they never say that the session is gone,
// and a session would be waited for that nobody can end.
//
// Once the lease has been over for a session's timeout, and no handshake was answered meanwhile,
// the client's zxid is left out of the handshake. Its session has been without effect for so long
// that it loses nothing by a server that knows it not. One that does know it may have been restored
// from a moment of it, or be behind the others: what is read there may be from before what the
// client knows, such as its own leadership, which it has given up since. So the first answer shows
// how far the server is, and one from the past reaches nobody. A server that was merely behind is
// not a session's timeout later, when the next handshake without a zxid is due. If that one shows
// the past too, the session is given up.
type setBack struct {
	seen    int64 // the zxid that was left out; 0: none was
	session int64
	head    []byte // of an answer, as far as it has come
	skip    int    // how much of it is left
}

// The beginning of an answer: length, number, zxid.
const (
	answerHead = 4 + 4 + 8
	noZxid     = 0 // of an answer to credentials; an event has -1
)

// from reads on, until it is known whether the server is behind the client.
func (s *setBack) from(read []byte) (known, behind bool) {
	for s.seen != 0 && len(read) > 0 {
		if n := min(s.skip, len(read)); n > 0 {
			s.skip, read = s.skip-n, read[n:]
			continue
		}
		n := min(answerHead-len(s.head), len(read))
		s.head, read = append(s.head, read[:n]...), read[n:]
		if len(s.head) < answerHead {
			break
		}
		size := int(int32(binary.BigEndian.Uint32(s.head)))
		zxid := int64(binary.BigEndian.Uint64(s.head[numberAt+4:]))
		s.skip, s.head = max(size+4-answerHead, 0), s.head[:0]
		if zxid > noZxid {
			known, behind = true, zxid < s.seen
			s.seen = 0
			return known, behind
		}
	}
	return false, false
}

// upToDate records that a server was not behind the client in that session.
func (d *Dialer) upToDate(session int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == session {
		d.behindSince = time.Time{}
	}
}

// behind records that a server was behind the client in that session.
func (d *Dialer) behind(session int64) {
	d.mu.Lock()
	since := d.behindSince
	if since.IsZero() {
		d.behindSince = time.Now()
	}
	lasts := !since.IsZero() && time.Since(since) >= d.lease.granted
	d.mu.Unlock()
	if lasts {
		d.giveUp(session, "was given up: ZooKeeper was restored from before what this client has "+
			"seen of it")
	}
}

// outlived tells whether the session may be asked for without the client's zxid, and which it is.
func (d *Dialer) outlived(now time.Time) (session int64, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session, d.renewing() && d.lease.outlived(now)
}
