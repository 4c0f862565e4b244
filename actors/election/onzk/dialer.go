package onzk

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// dialer makes the network connections of one zk.Conn and reads the handshakes that pass. So it
// knows which session ZooKeeper granted, for how long, and when ZooKeeper says that the session is
// gone. zk.Conn does not tell how long. It changes nothing of what passes.
type dialer struct {
	base  zk.Dialer
	state *messages.State[election.Contact] // all news of the session goes to it

	mu       sync.Mutex
	why      string    // the last session ended
	newest   net.Conn  // the newest connection
	conn     *observed // the newest connection with a finished handshake
	session  int64     // 0: there is none
	password []byte
	lease    lease
	closed   bool
	barred   bool  // no further connection is made
	broken   error // why it is closed, if its caller has not closed it
}

// Dial is the argument of zk.WithDialer.
func (d *dialer) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := d.base(network, address, timeout)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.barred {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	d.newest = conn
	return &observed{Conn: conn, dialer: d}, nil
}

func (d *dialer) publishLocked() {
	c := election.Contact{Why: d.why, Closed: d.closed, Broken: d.broken}
	if d.session != 0 {
		c.Session = sessionName(d.session)
		c.Lease = facts.Lease{Start: d.lease.start, TTL: d.lease.timeout}
	}
	d.state.Set(c)
}

func sessionName(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// current returns the connection of the session; nil: there is no session.
func (d *dialer) current() *observed {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn
}

// proved records a committed transaction that was sent while conn was the current connection. It is
// ignored if the connection has changed since: the transaction may have used either one.
func (d *dialer) proved(conn *observed, c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if conn != nil && conn == d.conn && !d.closed {
		d.lease.committed(c)
		d.publishLocked()
	}
}

// answered records the answer to a handshake. Session 0 means that the session is gone.
func (d *dialer) answered(conn *observed, session int64, timeout time.Duration, password []byte,
	c contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.barred:
		return
	case session == 0:
		if d.session != 0 {
			d.why = fmt.Sprintf("session %s %s; ZooKeeper last heard of it at %s",
				sessionName(d.session), d.lease.lost(c.answered),
				d.lease.start.Format("15:04:05.000"))
		}
		d.session, d.conn = 0, nil
	case session == d.session:
		d.conn = conn
		d.lease.reconnected(timeout, c)
	default:
		d.session, d.conn = session, conn
		d.lease.opened(timeout, c)
	}
	d.password = password
	d.publishLocked()
}

// close publishes that the connection is closed; why: without its caller's doing.
func (d *dialer) close(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed, d.broken = true, why
		d.publishLocked()
	}
}

// bar ends the newest connection, and makes no other one.
func (d *dialer) bar() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.barred = true
	if d.newest != nil {
		_ = d.newest.Close()
	}
}

// observed is a connection that reads the handshake as it passes: the first packet of each
// direction.
type observed struct {
	net.Conn
	dialer *dialer

	mu      sync.Mutex
	askedAt time.Time     // when the handshake was sent; zero: not yet
	timeout time.Duration // as asked for, then as granted
	answer  []byte        // to the handshake, as far as it has come
	done    bool          // the handshake
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

// Write reports success when it fails, and closes the connection. The client would answer the
// request twice otherwise, and three times while it is being closed. The third answer blocks it
// for ever.
func (o *observed) Write(b []byte) (int, error) {
	o.mu.Lock()
	if o.askedAt.IsZero() {
		o.askedAt = time.Now()
		if len(b) >= askedTimeout+4 {
			o.timeout = time.Duration(binary.BigEndian.Uint32(b[askedTimeout:])) * time.Millisecond
		}
	}
	o.mu.Unlock()
	if _, err := o.Conn.Write(b); err != nil {
		_ = o.Conn.Close()
	}
	return len(b), nil
}

func (o *observed) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done && n > 0 {
		o.answer = append(o.answer, b[:n]...)
		o.parse()
	}
	return n, err
}

// parse reads the answer to the handshake once it is complete. It ignores an answer of impossible
// size: the client will complain about it.
func (o *observed) parse() {
	a := o.answer
	if len(a) < 4 {
		return
	}
	size := int(binary.BigEndian.Uint32(a)) + 4
	if o.done = size < answeredKey+4 || size > maxAnswer; o.done || len(a) < size {
		return
	}
	o.done, o.answer = true, nil
	o.timeout = time.Duration(binary.BigEndian.Uint32(a[answeredTimeout:])) * time.Millisecond
	session := int64(binary.BigEndian.Uint64(a[answeredSession:]))
	password := a[answeredKey+4 : size]
	if n := int(binary.BigEndian.Uint32(a[answeredKey:])); n >= 0 && n < len(password) {
		password = password[:n]
	}
	o.dialer.answered(o, session, o.timeout, password, contact{o.askedAt, time.Now()})
}

// SetReadDeadline is called by the client before each answer that it waits for. The client would
// wait for 6.7 session timeouts for a handshake, and for two thirds of one after that: one server
// that has died would cost each leader there its lease. The client pings every third of a timeout.
func (o *observed) SetReadDeadline(t time.Time) error {
	o.mu.Lock()
	patience := o.timeout / 3
	if o.done {
		patience = o.timeout / 2
	}
	o.mu.Unlock()
	sooner := time.Now().Add(max(patience, 500*time.Millisecond))
	if !t.IsZero() && sooner.Before(t) {
		t = sooner
	}
	return o.Conn.SetReadDeadline(t)
}
