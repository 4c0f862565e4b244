//go:build coordd_elections

package onzk_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// wire is one connection's way to ZooKeeper, and where it is broken.
type wire struct {
	mu    sync.Mutex
	cut   chan struct{} // not nil: cut; closed when it is mended
	conns map[*piece]bool
}

// Dial is a zk.Dialer.
func (w *wire) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if cut := w.state(); cut != nil {
		select {
		case <-cut:
		case <-time.After(timeout):
			return nil, os.ErrDeadlineExceeded
		}
	}
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	p := &piece{Conn: conn, wire: w, closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = map[*piece]bool{}
	}
	w.conns[p] = true
	return p, nil
}

func (w *wire) state() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// Cut lets nothing pass, in either direction, and nobody learns of it.
func (w *wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

// Mend ends the cut; what was connected before has lost something and breaks.
func (w *wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		return
	}
	close(w.cut)
	w.cut = nil
	for p := range w.conns {
		p.Conn.Close()
	}
}

// piece is one network connection of a wire.
type piece struct {
	net.Conn
	wire   *wire
	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	deadline time.Time
}

func (p *piece) Write(b []byte) (int, error) {
	if p.wire.state() != nil {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (p *piece) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		cut := p.wire.state()
		if cut == nil {
			return n, err
		}
		if err == nil {
			continue
		}
		// The other side has closed the connection, or the deadline has passed: only the latter can
		// be seen.
		p.mu.Lock()
		deadline := p.deadline
		p.mu.Unlock()
		if deadline.IsZero() {
			deadline = time.Now().Add(time.Hour)
		}
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case <-cut:
			return 0, io.EOF
		case <-p.closed:
			return 0, net.ErrClosed
		case <-timer.C:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (p *piece) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	p.deadline = t
	p.mu.Unlock()
	return p.Conn.SetReadDeadline(t)
}

func (p *piece) Close() error {
	p.once.Do(func() { close(p.closed) })
	p.wire.mu.Lock()
	delete(p.wire.conns, p)
	p.wire.mu.Unlock()
	return p.Conn.Close()
}

// endSession closes a session as somebody who has its password: over another connection. Taking a
// session over breaks its owner's connection, and the owner may be back, and break ours, before the
// order to close has been read: so it is asked again until the server says that the session is
// over.
func endSession(addr string, session int64, password []byte) error {
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var over bool
		if over, err = closeSession(addr, session, password); over {
			return nil
		}
	}
	return fmt.Errorf("the session is not over after a minute of attempts; the last one: %w", err)
}

// closeSession makes one attempt, and tells whether the session is over.
func closeSession(addr string, session int64, password []byte) (over bool, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Minute)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	var b []byte
	b = binary.BigEndian.AppendUint32(b, uint32(4+8+4+8+4+len(password)+1))
	b = binary.BigEndian.AppendUint32(b, 0)     // version
	b = binary.BigEndian.AppendUint64(b, 0)     // last zxid
	b = binary.BigEndian.AppendUint32(b, 10000) // timeout
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	b = append(b, password...)
	b = append(b, 0) // not for reading only
	b = binary.BigEndian.AppendUint32(b, 8)
	b = binary.BigEndian.AppendUint32(b, 1)                     // xid
	b = binary.BigEndian.AppendUint32(b, uint32(0xffffffff-10)) // close session: -11
	if _, err := conn.Write(b); err != nil {
		return false, err
	}
	// The answer: length, version, the timeout that was granted, the session. All 0: there is no
	// such session.
	answer := make([]byte, 4+4+4+8)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return false, err
	}
	switch got := int64(binary.BigEndian.Uint64(answer[12:])); got {
	case 0:
		return true, nil
	case session:
	default:
		return false, fmt.Errorf("the server answered for session %x, not %x", got, session)
	}
	// What is left of the answer, and that of the order: the connection ends either way, so what
	// came tells.
	rest, err := io.ReadAll(conn)
	handshake := int(binary.BigEndian.Uint32(answer[:4])) - 16 // without what has been read of it
	if len(rest) > handshake {
		return true, nil
	}
	return false, fmt.Errorf("the connection ended before the answer to the order: %w",
		errors.Join(err, io.ErrUnexpectedEOF))
}
