package onzk

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
)

// A connection that ended within shortLived of its handshake makes the next dial pause, for 50 ms
// first and about mostDialPause in the end. The client takes a handshake for success and dials
// again without a pause: also where a server refuses the credentials that the client sends then,
// and ends the connection.
const (
	shortLived    = time.Second
	mostDialPause = time.Second
)

// pause returns how long the dial that begins now has to wait.
func (d *Dialer) pause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	accepted := d.accepted
	d.accepted = time.Time{}
	switch {
	case accepted.IsZero():
		return 0 // no handshake since the last dial: the client pauses by itself
	case time.Since(accepted) >= shortLived:
		d.pauses = nil
		return 0
	case d.pauses == nil:
		d.pauses = risingPause(mostDialPause)
	}
	return d.pauses.NextBackOff()
}

// dialing is one call of Dialer.Base.
type dialing struct {
	done chan struct{} // closed when it has returned
	// conn and err are what it has returned to whoever awaits it.
	conn    net.Conn
	err     error
	awaited bool // under Dialer.mu; else what it returns is closed
}

// dial calls Base in a goroutine of its own. The client dials in the goroutine that does all its
// work: if Base ended it, or hung in it, no request would ever end. A call that hangs is the only
// one to its address: the next dial awaits what it returns.
func (d *Dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	d.mu.Lock()
	c := d.dialing[address]
	if c == nil {
		c = &dialing{done: make(chan struct{})}
		if d.dialing == nil {
			d.dialing = map[string]*dialing{}
		}
		d.dialing[address] = c
		base := d.Base
		if base == nil {
			base = net.DialTimeout
		}
		// The client logs why a dial has failed.
		contained.Go(slog.New(slog.DiscardHandler), "the dialer", func() (err error) {
			c.conn, err = dialedByHost(base(network, address, timeout))
			return err
		}, func(err error) { d.dialed(address, c, err) })
	}
	c.awaited = true
	d.mu.Unlock()
	patience := time.NewTimer(2 * timeout)
	defer patience.Stop()
	select {
	case <-c.done:
		return c.conn, c.err
	case <-patience.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-c.done:
		return c.conn, c.err
	default:
	}
	c.awaited = false
	return nil, fmt.Errorf("the dialer has not returned after %v; its timeout is %v", 2*timeout,
		timeout)
}

// dialed records that Base has returned.
func (d *Dialer) dialed(address string, c *dialing, err error) {
	d.mu.Lock()
	delete(d.dialing, address)
	c.err = err
	kept := c.awaited && err == nil
	close(c.done)
	d.mu.Unlock()
	if !kept && c.conn != nil {
		_ = c.conn.Close()
	}
}
