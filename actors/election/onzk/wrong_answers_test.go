package onzk_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

type dial = func(network, address string, timeout time.Duration) (net.Conn, error)

// over is a way to servers whose connections are what wrap makes of them.
func over(way dial, wrap func(net.Conn) net.Conn) dial {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := way(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return wrap(c), nil
	}
}

// wrongAnswers is a connection to a server that answers some requests with an error of its own.
type wrongAnswers struct {
	net.Conn
	xid  atomic.Uint32 // of the request that is answered so next; 0: none is
	code int32
	then func() // nil: nothing
}

func (c *wrongAnswers) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if xid := c.xid.Load(); n >= 16 && xid != 0 && binary.BigEndian.Uint32(b) == xid {
		binary.BigEndian.PutUint32(b[12:], uint32(c.code))
		c.xid.Store(0)
		if c.then != nil {
			c.then()
		}
	}
	return n, err
}

// isOf tells whether a request is of that kind, and its number.
func isOf(request []byte, kind uint32) (xid uint32, is bool) {
	if len(request) < 12 || binary.BigEndian.Uint32(request[8:]) != kind {
		return 0, false
	}
	return binary.BigEndian.Uint32(request[4:]), true
}

// isTake tells whether a request takes the leadership of the election "demo", or gives it up.
func isTake(request []byte) bool {
	_, is := isOf(request, kindCommit)
	return is && bytes.Contains(request, []byte("/demo/leader"))
}
