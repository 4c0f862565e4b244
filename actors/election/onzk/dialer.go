package onzk

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// Dialer makes the network connections of one zk.Conn and hears the handshakes on them: which
// session ZooKeeper granted, for how long, and when it says that there is none any more. zk.Conn
// keeps the first two to itself or forgets them.
//
//	d := new(onzk.Dialer)
//	zc, events, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(d.Dial))
//	conn, err := onzk.New(zc, events, d, onzk.Config{})
//
// It also keeps away three weaknesses of github.com/go-zookeeper/zk v1.0.4. By itself zk.Conn waits
// for 6.7 times the session's timeout for the answer to a handshake, so that one server that
// accepts and does not answer costs the session although others are there, and for two thirds of
// the timeout for any other answer, by when the lease is over. After a reconnection it may tell the
// server a state that is too new and so miss what happened to the nodes that it watches. And it may
// hang for ever when it is closed while a write fails.
type Dialer struct {
	// Base connects to a server; nil means net.DialTimeout.
	Base zk.Dialer

	mu       sync.Mutex
	state    *messages.State[election.Contact]
	why      string
	newest   *heard // of all
	conn     *heard // the newest one with a handshake
	session  int64
	password []byte
	lease    lease
	proving  bool // requests are sent often enough for silence to mean something
	watching bool // something is watched in this session
	closed   bool
}

// Dial is for zk.WithDialer.
func (d *Dialer) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	base := d.Base
	if base == nil {
		base = net.DialTimeout
	}
	conn, err := base(network, address, timeout)
	if err != nil {
		return nil, err
	}
	h := &heard{Conn: conn, dialer: d, ready: make(chan struct{})}
	d.mu.Lock()
	d.newest = h
	d.mu.Unlock()
	return h, nil
}

// contact is the cell that everything heard goes to.
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
	c := election.Contact{Why: d.why, Closed: d.closed}
	if d.session != 0 {
		c.Session = sessionName(d.session)
		c.Lease = messages.Lease{Start: d.lease.start, TTL: d.lease.timeout}
	}
	d.contactLocked().Set(c)
}

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// current returns the session and its connection, to tell later whether both are the same still.
func (d *Dialer) current() (session int64, conn *heard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session, d.conn
}

// proved notes a transaction that was committed, if its connection is still the one of now:
// otherwise it cannot be told which of the two it went over.
func (d *Dialer) proved(conn *heard, c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if conn != nil && conn == d.conn && d.session != 0 && !d.closed {
		d.lease.committed(c)
		d.publishLocked()
	}
}

// shook takes the answer to a handshake.
func (d *Dialer) shook(conn *heard, session int64, timeout time.Duration, password []byte,
	c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
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
		d.lease.again(timeout, c)
	default:
		d.session, d.conn, d.watching = session, conn, false
		d.lease.opened(timeout, c)
	}
	d.password = password
	d.publishLocked()
}

// close says so to everybody and ends what is there.
func (d *Dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.publishLocked()
}

// watch notes that something is watched in the session, if it is still that one.
func (d *Dialer) watch(session int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watching = d.watching || session != 0 && session == d.session
}

// abort ends the newest connection, whatever it waits for.
func (d *Dialer) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest != nil {
		_ = d.newest.Conn.Close()
	}
}

// prove tells whether requests are sent every sixth of the timeout from now on.
func (d *Dialer) prove(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proving = on
}

// patience is how long to wait for an answer when the client would wait longer; 0 leaves it to the
// client.
func (d *Dialer) patience(timeout time.Duration, shaken bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shaken && !d.proving {
		return 0
	}
	return max(timeout/3, 500*time.Millisecond)
}

// heard is a network connection whose first packet each way, the handshake, is read along.
type heard struct {
	net.Conn
	dialer *Dialer

	mu      sync.Mutex
	sent    time.Time
	timeout time.Duration // as asked for, then as granted
	answer  []byte        // what came of it; nil once it is complete
	shaken  bool
	// a session with watches: the client will send them before anything else matters
	resumed bool
	ready   chan struct{} // closed when it has
}

// The packets, all numbers big-endian. Request: length, version (4), last zxid (8), timeout in ms
// (4), … Answer: length, version (4), timeout in ms (4), session (8), password (length, bytes), …
const (
	askedTimeout    = 4 + 4 + 8
	answeredTimeout = 4 + 4
	answeredSession = answeredTimeout + 4
	answeredKey     = answeredSession + 8
	maxAnswer       = 1024
)

// All later requests: length, number (4), kind (4), …
const (
	kindAt         = 4 + 4
	kindSetAuth    = 100
	kindSetWatches = 101
)

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	switch {
	case h.sent.IsZero():
		h.sent = time.Now()
		if len(b) >= askedTimeout+4 {
			h.timeout = time.Duration(binary.BigEndian.Uint32(b[askedTimeout:])) * time.Millisecond
		}
	case h.resumed && len(b) >= kindAt+4:
		if kind := binary.BigEndian.Uint32(b[kindAt:]); kind == kindSetWatches ||
			kind == kindSetAuth {
			h.resumed = false
			close(h.ready)
		}
	}
	h.mu.Unlock()
	if _, err := h.Conn.Write(b); err != nil {
		// The client answers a request whose writing failed twice, and three times if it is being
		// closed: then it blocks for ever. The reading side tells it once.
		_ = h.Conn.Close()
	}
	return len(b), nil
}

func (h *heard) Read(b []byte) (int, error) {
	h.await()
	n, err := h.Conn.Read(b)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.shaken && n > 0 {
		h.answer = append(h.answer, b[:n]...)
		h.hear()
	}
	return n, err
}

// await keeps the answers back until the client has sent its watches: it says with them up to which
// state it has seen everything, and takes that, unguarded, from the newest answer. What happened
// between the watches and that answer would never be told.
func (h *heard) await() {
	h.mu.Lock()
	resumed, patience := h.resumed, h.timeout/3
	h.mu.Unlock()
	if !resumed {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-h.ready:
	case <-timer.C:
	}
}

// hear reads the answer once all of it is there. What cannot be one ends the listening: the client
// will complain.
func (h *heard) hear() {
	a := h.answer
	if len(a) < 4 {
		return
	}
	size := int(binary.BigEndian.Uint32(a)) + 4
	if size < answeredKey+4 || size > maxAnswer {
		h.shaken, h.answer = true, nil
		return
	}
	if len(a) < size {
		return
	}
	h.shaken, h.answer = true, nil
	h.timeout = time.Duration(binary.BigEndian.Uint32(a[answeredTimeout:])) * time.Millisecond
	session := int64(binary.BigEndian.Uint64(a[answeredSession:]))
	password := a[answeredKey+4 : size]
	if n := int(binary.BigEndian.Uint32(a[answeredKey:])); n >= 0 && n < len(password) {
		password = password[:n]
	}
	h.dialer.shook(h, session, h.timeout, password, contact{sent: h.sent, answered: time.Now()})
}

// SetReadDeadline is what the client calls before each answer that it waits for.
func (h *heard) SetReadDeadline(t time.Time) error {
	h.mu.Lock()
	timeout, shaken := h.timeout, h.shaken
	h.mu.Unlock()
	if patience := h.dialer.patience(timeout, shaken); !t.IsZero() && patience > 0 {
		if sooner := time.Now().Add(patience); sooner.Before(t) {
			t = sooner
		}
	}
	return h.Conn.SetReadDeadline(t)
}
