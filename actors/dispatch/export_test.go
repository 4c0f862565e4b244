package dispatch

import (
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// ParsePath is parsePath, for its tests.
func ParsePath(escaped string) (item string, all, ok bool) {
	t := parsePath(escaped)
	return t.item, t.all, t.ok
}

// LeavesItem is leavesItem, for its tests.
func LeavesItem(escaped string) bool { return leavesItem(escaped) }

// InFlight is how many requests and streams are under way or wait, in all and to a member.
func (d *Dispatcher) InFlight(member string) (all, to int) {
	for _, p := range []*sharedPlaces{&d.requests, &d.streams} {
		p.each.mu.Lock()
		all, to = all+int(p.used.Load()), to+p.each.used[member]
		p.each.mu.Unlock()
	}
	return all + int(d.waiting.used.Load()), to
}

// Broadcasts is how many are under way.
func (d *Dispatcher) Broadcasts() int {
	d.broadcasting.mu.Lock()
	defer d.broadcasting.mu.Unlock()
	return d.broadcasting.used
}

// DialWith has dial make the connections to members; nil: this one is refused.
func (d *Dispatcher) DialWith(dial func(address string) net.Conn) {
	d.DialOrFailWith(func(address string) (net.Conn, error) {
		if conn := dial(address); conn != nil {
			return conn, nil
		}
		return nil, syscall.ECONNREFUSED
	})
}

// DialOrFailWith is DialWith, and the dial says what it fails with.
func (d *Dispatcher) DialOrFailWith(dial func(address string) (net.Conn, error)) {
	d.transport.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
		conn, err := dial(address)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		return newIdleConn(conn, d.cfg.Idle, d.cfg.Timeout), nil
	}
}

// ReplayBytes is how much of a body can be sent again.
const ReplayBytes = replayBytes

// HeadBytes is how much the head of an answer may have.
const HeadBytes = headBytes

// ReplayBody is a request's body.
type ReplayBody struct{ *replayBody }

func NewReplayBody(src io.Reader) ReplayBody { return ReplayBody{newReplayBody(src)} }
func (t ReplayBody) Reader() io.ReadCloser   { return t.newReader() }
func (t ReplayBody) Close(stop func())       { t.close(stop) }
func (t ReplayBody) Replayable() bool        { return t.replayable() }

// OnClosedConn has it sent on a connection to a member that has just been closed.
func (t ReplayBody) OnClosedConn(conn net.Conn) {
	i := newIdleConn(conn, time.Minute, time.Minute)
	_ = i.Close()
	i.begin(t.taken())
}

// Check tells whether a connection to target may be made to what it resolved to.
func (r *Reach) Check(ctx context.Context, target, resolved string) error {
	return r.control(target, "")(ctx, "tcp", resolved, nil)
}

// Reading is how many broadcasts were answered by the members and are being read by their clients.
func (d *Dispatcher) Reading() int { return int(d.reading.used.Load() >> 20) }

// Bodies is how many bytes the bodies that broadcasts are waiting for take of their room.
func (d *Dispatcher) Bodies() int64 { return d.bodies.used.Load() }

// UpgradedClient is the client's side of an upgraded connection.
func UpgradedClient(conn net.Conn, idle time.Duration) net.Conn {
	return &upgradedClient{Conn: conn, writeTimeout: idle, idleTimeout: idle}
}

// MemberConn is a connection to a member; begin is for a request on it, and returns what is for the
// answer to that.
func MemberConn(conn net.Conn, idle, taking time.Duration) (c net.Conn, begin func() func()) {
	i := newIdleConn(conn, idle, taking)
	return i, func() func() {
		n := i.begin(nil)
		return func() { i.answer(n) }
	}
}

// Client is the connection to a client that sends a body.
func Client(w http.ResponseWriter, r *http.Request, idle, timeout time.Duration) interface {
	http.ResponseWriter
	io.Reader
} {
	return newClient(w, r, idle, timeout)
}
