package dispatch

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// replayBody is a request's body that can be sent again as long as no more of it was read than is
// kept.
type replayBody struct {
	overrun   atomic.Bool // more was read than is kept
	closed    atomic.Bool // the request is: the client must not be read from any more
	readError atomic.Pointer[error]

	mu   sync.Mutex // held while the client is read from: for as long as the client likes
	src  io.Reader
	kept []byte
	read int64
	err  error
}

func newReplayBody(src io.Reader) *replayBody { return &replayBody{src: src} }

// replayable tells whether all that was read so far is at hand.
func (t *replayBody) replayable() bool { return !t.overrun.Load() }

// sourceError is the error that the client's body ended with; nil: it has ended well, or not yet.
func (t *replayBody) sourceError() error {
	if t == nil || t.readError.Load() == nil {
		return nil
	}
	return *t.readError.Load()
}

// close is for the end of the request. A reader of the connection that was lost may go on for a
// moment; after the end of its handler a request's body must not be read.
func (t *replayBody) close() { t.closed.Store(true) }

// reader returns the body from its beginning. An earlier reader that still waits for the client
// keeps the new one waiting, and what it gets is kept for the new one.
func (t *replayBody) reader() io.ReadCloser { return &replayReader{body: t} }

var (
	errUnwanted = errors.New("the body is not wanted any more")
	errOverrun  = errors.New("the beginning of the body is not at hand any more")
)

type replayReader struct {
	body   *replayBody
	at     int64
	closed atomic.Bool
}

func (p *replayReader) Read(b []byte) (int, error) {
	t := p.body
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.closed.Load(), t.closed.Load():
		return 0, errUnwanted
	case p.at < int64(len(t.kept)):
		n := copy(b, t.kept[p.at:])
		p.at += int64(n)
		return n, nil
	case p.at < t.read:
		return 0, errOverrun
	case t.err != nil:
		return 0, t.err
	}
	n, err := t.src.Read(b)
	if t.err = err; err != nil && err != io.EOF {
		t.readError.Store(&err)
	}
	t.read += int64(n)
	p.at += int64(n)
	if t.read > replayBytes {
		t.overrun.Store(true)
		t.kept = nil
	} else {
		t.kept = append(t.kept, b[:n]...)
	}
	return n, err
}

// Close does not wait for a read that is under way.
func (p *replayReader) Close() error {
	p.closed.Store(true)
	return nil
}
