package onzk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// Dialer makes the network connections of one zk.Conn and reads the handshakes on them. So it knows
// which session ZooKeeper granted, for how long, and when ZooKeeper says that the session is gone.
// zk.Conn does not tell the first two.
//
//	d := new(onzk.Dialer)
//	zc, events, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(d.Dial))
//	conn, err := onzk.New(zc, events, d, onzk.Config{})
//
// A zk.Conn that is made so resolves its servers' names once, in zk.Connect; [Connect] has them
// resolved for each connection.
//
// It also works around four weaknesses of github.com/go-zookeeper/zk v1.0.4:
//
//   - zk.Conn waits too long for answers: 6.7 times the session's timeout for a handshake, two
//     thirds of the timeout for others. One server that accepts and does not answer would cost the
//     session although other servers work.
//   - After a reconnection it may send the server a zxid that is too new. Then it misses changes of
//     the nodes that it watches.
//   - It may hang for ever if it is closed while a write fails.
//   - It dials thousands of times in a second if servers accept its handshake and end the
//     connection then, as those do that refuse its credentials.
type Dialer struct {
	// Base connects to a server; nil means net.DialTimeout. One that has not returned after twice
	// its timeout has failed for the client, whose other requests wait for it. A panic of what it
	// returns breaks that connection and nothing else.
	Base zk.Dialer

	mu       sync.Mutex
	state    *messages.State[election.Contact]
	why      string         // the last session ended
	newest   *handshakeConn // the newest connection
	conn     *handshakeConn // the newest connection with a finished handshake
	session  int64          // 0: there is none
	password []byte
	lease    lease
	proving  bool    // requests are sent so often that silence means a dead server
	watching bool    // the session has watches
	given    bool    // the session was given up, and the client has yet to hear of it
	givenUp  []int64 // the sessions that were given up
	// behindSince is when a server was first found to be behind the client; zero: none was since
	// one that was not.
	behindSince time.Time
	closed      bool
	barred      bool                // no further connection is made
	dialing     map[string]*dialing // by address
	broken      error               // why it is closed, if its caller has not closed it
	accepted    time.Time           // when a handshake since the last dial was; zero: none
	pauses      *backoff.ExponentialBackOff
	refused     func() // is told that credentials are refused; it may be nil
}

// Dial is the argument of zk.WithDialer.
func (d *Dialer) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	time.Sleep(d.pause())
	d.mu.Lock()
	barred, gone := d.barred, d.expired()
	d.mu.Unlock()
	if barred {
		return nil, net.ErrClosed
	}
	if gone != nil {
		return gone, nil
	}
	conn, err := d.dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if gone := d.expired(); gone != nil {
		_ = conn.Close()
		return gone, nil
	}
	d.newest = &handshakeConn{Conn: conn, dialer: d, watchesSent: make(chan struct{})}
	return d.newest, nil
}

// contact returns the state that all news of the session goes to.
func (d *Dialer) contact() *messages.State[election.Contact] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contactLocked()
}

func (d *Dialer) contactLocked() *messages.State[election.Contact] {
	if d.state == nil {
		d.state = messages.NewState(election.Contact{})
	}
	return d.state
}

func (d *Dialer) publishLocked() {
	c := election.Contact{Why: d.why, Closed: d.closed, Broken: d.broken}
	if d.session != 0 {
		c.Session = sessionName(d.session)
		c.Lease = messages.Lease{Start: d.lease.start, TTL: d.lease.timeout}
	}
	d.contactLocked().Set(c)
}

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// current returns the session and its connection.
func (d *Dialer) current() (session int64, conn *handshakeConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session, d.conn
}

// proved records a committed transaction that was sent while conn was the current connection. It is
// ignored if the connection has changed since: the transaction may have used either one.
func (d *Dialer) proved(conn *handshakeConn, c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if conn != nil && conn == d.conn && d.session != 0 && !d.closed {
		d.lease.committed(c)
		d.publishLocked()
	}
}

// handshakeAnswered records the answer to a handshake. Session 0 means that the session is gone.
func (d *Dialer) handshakeAnswered(conn *handshakeConn, session int64, timeout time.Duration,
	password []byte,
	c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.barred || d.given {
		return
	}
	switch {
	case session == 0:
		if d.session != 0 {
			d.why = fmt.Sprintf("session %s %s; ZooKeeper last heard of it at %s",
				sessionName(d.session), d.lease.lost(c.answered),
				d.lease.start.Format("15:04:05.000"))
		}
		d.session, d.conn, d.watching = 0, nil, false
		_ = conn.Conn.Close() // the client forgets to
	case session == d.session:
		d.conn, conn.resumed = conn, d.watching
		if conn.setBack.seen == 0 {
			d.behindSince = time.Time{}
		}
		d.lease.reconnected(timeout, c)
	default:
		d.session, d.conn, d.watching, d.behindSince = session, conn, false, time.Time{}
		d.lease.opened(timeout, c)
	}
	if session != 0 {
		d.accepted = time.Now()
	}
	d.password = password
	d.publishLocked()
}

// onRefused sets what is called when a server refuses credentials.
func (d *Dialer) onRefused(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = f
}

// credentialsRefused tells that a server has refused credentials. Nothing can be done in a session
// then, and each handshake extends it with all that it holds. So it is given up when its lease is
// over, unless it can hold nothing, as nothing was done in it.
func (d *Dialer) credentialsRefused() {
	d.mu.Lock()
	f, session := d.refused, d.session
	over := d.renewing() && d.lease.used && time.Since(d.lease.start) >= d.lease.timeout
	d.mu.Unlock()
	if f != nil {
		f()
	}
	if over {
		d.giveUp(session, "was given up: ZooKeeper refuses the credentials")
	}
}

// close publishes that the connection is closed. With bar it also ends the dialing: a connection
// that its caller owns goes on.
func (d *Dialer) close(bar bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.barred = true, d.barred || bar
	d.publishLocked()
}

// broke publishes that the connection is closed although its caller has not closed it.
func (d *Dialer) broke(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed, d.broken = true, why
	d.publishLocked()
}

// watch records that the session of this moment has watches, or is about to have one.
func (d *Dialer) watch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watching = d.watching || d.session != 0
}

// closeNewest closes the newest connection. Whatever waits for an answer on it fails.
func (d *Dialer) closeNewest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest != nil {
		_ = d.newest.Conn.Close()
	}
}

// setProving says whether requests are sent every sixth of the timeout from now on.
func (d *Dialer) setProving(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proving = on
}

// answerTimeout bounds the wait for an answer where the client's own bound is too long; 0: the
// client's own holds.
func (d *Dialer) answerTimeout(timeout time.Duration, shaken bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shaken && !d.proving {
		return 0
	}
	return max(timeout/3, 500*time.Millisecond)
}

// handshakeConn is a network connection that reads the handshake as it passes: the first packet of
// each direction.
type handshakeConn struct {
	net.Conn
	dialer *Dialer

	mu            sync.Mutex
	askedAt       time.Time     // when the handshake was sent; zero: not yet
	timeout       time.Duration // as asked for, then as granted
	answer        []byte        // to the handshake, as far as it has come; nil once complete
	handshakeDone bool
	// resumed: the session has watches, and the client has not yet sent them on this connection.
	resumed     bool
	watchesSent chan struct{} // closed when the client has sent them
	credentials []byte        // the number of the request that sends credentials; nil: none is open
	setBack     setBack
}

// The packets, all numbers big-endian. Request: length, version (4), last zxid (8), timeout in ms
// (4), … Answer: length, version (4), timeout in ms (4), session (8), password (length, bytes), …
const (
	askedZxid       = 4 + 4
	askedTimeout    = askedZxid + 8
	answeredTimeout = 4 + 4
	answeredSession = answeredTimeout + 4
	answeredKey     = answeredSession + 8
	maxAnswer       = 1024
)

// All later requests: length, number (4), kind (4), … Answer: length, number (4), zxid (8), error
// (4), …
const (
	numberAt       = 4
	kindAt         = numberAt + 4
	kindSetAuth    = 100
	kindSetWatches = 101
	answeredError  = 4 + 8 // after the length, which the client reads by itself
	authFailed     = -115
)

func (h *handshakeConn) Write(b []byte) (int, error) {
	h.mu.Lock()
	switch {
	case h.askedAt.IsZero():
		h.askedAt = time.Now()
		if len(b) >= askedTimeout+4 {
			h.timeout = time.Duration(binary.BigEndian.Uint32(b[askedTimeout:])) * time.Millisecond
			if session, yes := h.dialer.outlived(h.askedAt); yes {
				h.setBack.session = session
				h.setBack.seen = int64(binary.BigEndian.Uint64(b[askedZxid:]))
				b = slices.Clone(b)
				clear(b[askedZxid:askedTimeout])
			}
		}
	case len(b) >= kindAt+4:
		switch binary.BigEndian.Uint32(b[kindAt:]) {
		case kindSetAuth:
			h.credentials = slices.Clone(b[numberAt:kindAt])
			h.sendsWatches()
		case kindSetWatches:
			h.sendsWatches()
		}
	}
	h.mu.Unlock()
	if _, err := h.Conn.Write(b); err != nil {
		// A failed write makes the client answer the request twice, and three times while it is
		// being closed. The third answer blocks it for ever. So report success and close the
		// connection: then the reading side fails, and the request is answered once.
		_ = h.Conn.Close()
	}
	return len(b), nil
}

func (h *handshakeConn) Read(b []byte) (int, error) {
	h.awaitWatches()
	n, err := h.Conn.Read(b)
	h.mu.Lock()
	refused, known, behind := false, false, false
	if h.handshakeDone {
		refused = h.refusal(b[:n])
		known, behind = h.setBack.from(b[:n])
	} else if n > 0 {
		h.answer = append(h.answer, b[:n]...)
		h.parseAnswer()
	}
	h.mu.Unlock()
	if behind {
		h.dialer.behind(h.setBack.session)
		_ = h.Conn.Close()
		return 0, errSetBack
	}
	if known {
		h.dialer.upToDate(h.setBack.session)
	}
	if refused {
		h.dialer.credentialsRefused()
	}
	return n, err
}

// refusal tells whether an answer says that the credentials are refused. An answer that comes in
// pieces is missed: the server ends the connection, and refuses them on the next one. It needs
// h.mu.
func (h *handshakeConn) refusal(answer []byte) bool {
	if h.credentials == nil || len(answer) < answeredError+4 ||
		!bytes.Equal(answer[:len(h.credentials)], h.credentials) {
		return false
	}
	h.credentials = nil
	return int32(binary.BigEndian.Uint32(answer[answeredError:])) == authFailed
}

// awaitWatches holds back answers until the client has sent its watches. With the watches the
// client sends the zxid up to which it has seen all changes, and it takes that zxid, unguarded,
// from the newest answer. An answer read before the watches are sent would raise the zxid: the
// server would never report the changes in between.
//
// The client sends none if none are left. So the wait is bounded, once for each connection, and far
// below what the client waits for an answer: a connection whose answers all came too late would be
// given up, and so would each one after it.
func (h *handshakeConn) awaitWatches() {
	h.mu.Lock()
	resumed, patience := h.resumed, h.timeout/12
	h.mu.Unlock()
	if !resumed {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-h.watchesSent:
	case <-timer.C:
		h.mu.Lock()
		h.sendsWatches()
		h.mu.Unlock()
	}
}

// sendsWatches ends the wait for the watches. It needs h.mu.
func (h *handshakeConn) sendsWatches() {
	if h.resumed {
		h.resumed = false
		close(h.watchesSent)
	}
}

// parseAnswer reads the answer to the handshake once it is complete. It ignores an answer of
// impossible size: the client will complain about it.
func (h *handshakeConn) parseAnswer() {
	a := h.answer
	if len(a) < 4 {
		return
	}
	size := int(binary.BigEndian.Uint32(a)) + 4
	if size < answeredKey+4 || size > maxAnswer {
		h.handshakeDone, h.answer = true, nil
		return
	}
	if len(a) < size {
		return
	}
	h.handshakeDone, h.answer = true, nil
	h.timeout = time.Duration(binary.BigEndian.Uint32(a[answeredTimeout:])) * time.Millisecond
	session := int64(binary.BigEndian.Uint64(a[answeredSession:]))
	password := a[answeredKey+4 : size]
	if n := int(binary.BigEndian.Uint32(a[answeredKey:])); n >= 0 && n < len(password) {
		password = password[:n]
	}
	h.dialer.handshakeAnswered(h, session, h.timeout, password, contact{sent: h.askedAt,
		answered: time.Now()})
}

// SetReadDeadline is called by the client before each answer that it waits for. It shortens the
// wait to answerTimeout.
func (h *handshakeConn) SetReadDeadline(t time.Time) error {
	h.mu.Lock()
	timeout, shaken := h.timeout, h.handshakeDone
	h.mu.Unlock()
	if patience := h.dialer.answerTimeout(timeout, shaken); !t.IsZero() && patience > 0 {
		if sooner := time.Now().Add(patience); sooner.Before(t) {
			t = sooner
		}
	}
	return h.Conn.SetReadDeadline(t)
}
