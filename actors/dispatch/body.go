package dispatch

import (
	"errors"
	"io"
	"sync"
)

// body is a client's body, which is sent once. A nil one is of a request without any.
type body struct {
	src io.Reader

	mu   sync.Mutex
	last *attempt // the only one that may read
	read bool     // something was
	err  error    // what the client's body broke off with
}

// attempt is the body for one attempt to send it.
type attempt struct{ of *body }

// errUnwanted is for an attempt that another one has followed.
var errUnwanted = errors.New("the body is not wanted any more")

// errSent is for a body that cannot be sent again.
var errSent = errors.New("a part of the body was sent already")

// again returns the body for the next attempt, and ends the attempt before. Once something of it
// was read there is none: [errSent].
func (b *body) again() (io.ReadCloser, error) {
	if b == nil {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read {
		return nil, errSent
	}
	b.last = &attempt{b}
	return b.last, nil
}

// broke is what the client's body broke off with; nil: it did not.
func (b *body) broke() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (a *attempt) Read(p []byte) (int, error) {
	if !a.begin() {
		return 0, errUnwanted
	}
	n, err := a.of.src.Read(p)
	if err != nil && err != io.EOF {
		a.of.mu.Lock()
		defer a.of.mu.Unlock()
		a.of.err = err
	}
	return n, err
}

// begin is for a read that is about to begin. False: it must not.
func (a *attempt) begin() bool {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.of.last != a {
		return false
	}
	a.of.read = true
	return true
}

// Close leaves the client's body alone: net/http closes it when no connection came about.
func (a *attempt) Close() error { return nil }
