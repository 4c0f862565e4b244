package conformance_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// newTransport adds nothing to requests, and reports what was answered also when not all of the
// request could be written.
func newTransport() *http.Transport {
	return &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return patientConn{c}, nil
		},
	}
}

// patientConn goes on to read when the other end has closed in the middle of what is written. A
// server may refuse a request before its end; net/http's client then reports whichever it notices
// first, the answer or that it could not write the rest.
type patientConn struct{ net.Conn }

func (c patientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(p), nil
	}
	return n, err
}
