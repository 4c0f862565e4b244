package dispatch

import (
	"bufio"
	"net"
	"sync/atomic"
	"time"
)

// upgradedClient is the client's side of an upgraded connection. What is written has to be taken in
// time. How long the client may be silent is for the member's side to say, as long as that has one.
type upgradedClient struct {
	net.Conn
	// what is buffered in it has come right behind the request; nil: nothing has
	sent                      *bufio.Reader
	writeTimeout, idleTimeout time.Duration
	alone                     atomic.Bool // the member sends nothing more
}

func (c *upgradedClient) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.writeTimeout))
	return c.Conn.Write(p)
}

func (c *upgradedClient) Read(p []byte) (int, error) {
	if c.sent != nil && c.sent.Buffered() > 0 {
		return c.sent.Read(p) // of the buffer alone
	}
	if c.alone.Load() {
		c.extendReadDeadline()
	}
	return c.Conn.Read(p)
}

func (c *upgradedClient) extendReadDeadline() {
	_ = c.SetReadDeadline(time.Now().Add(c.idleTimeout))
}

// CloseWrite tells the client that nothing more comes, and lets it go on for as long as it says
// something: the member's side, which may have gone, has nothing more to hear.
func (c *upgradedClient) CloseWrite() error {
	c.alone.Store(true)
	c.extendReadDeadline() // also for the read that is under way
	return closeWrite(c.Conn)
}

// closeWrite ends one direction of a connection; both, where it knows no halves.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
