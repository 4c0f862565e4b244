package dispatch

import (
	"net"
	"time"
)

// idleConn is a connection to a member. It ends when no byte has passed in either direction for so
// long.
type idleConn struct {
	net.Conn
	idle time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.idle))
	return c.Conn.Read(p)
}

func (c *idleConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.idle)) // also of the read that is under way
	return c.Conn.Write(p)
}

// CloseWrite tells the member that nothing more comes on an upgraded connection.
func (c *idleConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
