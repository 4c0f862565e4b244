package dispatch

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// tape is a request's body that can be sent again as long as no more of it was read than is kept.
type tape struct {
	lost atomic.Bool // more was read than is kept
	over atomic.Bool // the request is: the client must not be read from any more
	bad  atomic.Pointer[error]

	mu   sync.Mutex // held while the client is read from: for as long as the client likes
	src  io.Reader
	kept []byte
	read int64
	err  error
}

func newTape(src io.Reader) *tape { return &tape{src: src} }

// whole tells whether all that was read so far is at hand.
func (t *tape) whole() bool { return !t.lost.Load() }

// broke is the error that the client's body ended with; nil: it has ended well, or not yet.
func (t *tape) broke() error {
	if t == nil || t.bad.Load() == nil {
		return nil
	}
	return *t.bad.Load()
}

// close is for the end of the request. A player of the connection that was lost may go on for a
// moment; after the end of its handler a request's body must not be read.
func (t *tape) close() { t.over.Store(true) }

// play returns the body from its beginning. A former player that still waits for the client keeps
// the new one waiting, and what it gets is kept for it.
func (t *tape) play() io.ReadCloser { return &player{tape: t} }

var (
	errUnwanted = errors.New("the body is not wanted any more")
	errOverrun  = errors.New("the beginning of the body is not at hand any more")
)

type player struct {
	tape   *tape
	at     int64
	closed atomic.Bool
}

func (p *player) Read(b []byte) (int, error) {
	t := p.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.closed.Load(), t.over.Load():
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
		t.bad.Store(&err)
	}
	t.read += int64(n)
	p.at += int64(n)
	if t.read > replayBytes {
		t.lost.Store(true)
		t.kept = nil
	} else {
		t.kept = append(t.kept, b[:n]...)
	}
	return n, err
}

// Close does not wait for a read that is under way.
func (p *player) Close() error {
	p.closed.Store(true)
	return nil
}
