package dispatch

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// replayBody is a request's body that can be sent again as long as no more of it was read than is
// kept. The client is read from in a goroutine of its own, when somebody waits for more: whoever
// waits can give up, however long the client rests.
type replayBody struct {
	src io.Reader

	mu      sync.Mutex
	changed sync.Cond
	reader  *replayReader // the last one, and the only one that is read
	reading bool          // the client is
	closed  bool          // the request is: the client must not be read from any more
	kept    []byte        // the beginning; of what is longer than may be kept, the last piece
	from    int64         // where that begins
	err     error         // what the client's body ended with
}

// pieceBytes is how much of a client's body is read at once.
const pieceBytes = 16 << 10

var pieces = sync.Pool{New: func() any { return new([pieceBytes]byte) }}

func newReplayBody(src io.Reader) *replayBody {
	t := &replayBody{src: src}
	t.changed.L = &t.mu
	return t
}

// replayable ends the last reader, and tells whether all that was read so far is at hand: for the
// next one it stays so, whatever comes of the client until then.
func (t *replayBody) replayable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reader.end(errUnwanted)
	return t.from == 0
}

// sourceError is the error that the client's body ended with; nil: it has ended well, or not yet.
func (t *replayBody) sourceError() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == io.EOF {
		return nil
	}
	return t.err
}

// awaited tells whether the last attempt has sent all that the client has, and the client is waited
// for to send more. It may be as well for an earlier attempt: while the last one is connected.
func (t *replayBody) awaited() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reading && t.reader != nil && t.reader.waits
}

// close is for the end of the request. After the end of its handler a body must not be read: a read
// that is under way is waited for, and ended by stop if its client rests. The server would end it,
// and with it the time that the rest of the body has to arrive; and behind a read that was ended it
// takes no rest of a body in chunks, so that the answer may be lost to a client that still sends.
// Not every server can end one; nor is it waited for long.
func (t *replayBody) close(stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.kept = true, nil
	t.changed.Broadcast()
	t.readEnds(sendingTime)
	if t.reading {
		stop()
		t.readEnds(drainTime)
	}
}

// sendingTime is how long nothing comes of a client that sends, at the most.
const sendingTime = 20 * time.Millisecond

// settle is for a request whose context has ended: if that is for what a read of its client failed
// with, this one is about to end, too.
func (t *replayBody) settle() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.readEnds(drainTime)
	}
}

// readEnds waits for a read of the client that is under way, but not for long. It needs t.mu.
func (t *replayBody) readEnds(most time.Duration) {
	if !t.reading {
		return
	}
	enough := false
	timer := time.AfterFunc(most, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		enough = true
		t.changed.Broadcast()
	})
	defer timer.Stop()
	for t.reading && !enough {
		t.changed.Wait()
	}
}

// newReader returns the body from its beginning. The earlier one ends. What the client sends to a
// read that is under way is for the new one.
func (t *replayBody) newReader() *replayReader {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reader = &replayReader{body: t}
	t.changed.Broadcast()
	return t.reader
}

// taken is the last reader, for a connection that begins to send it; nil: there is none. When a
// connection ends that net/http has just taken, it gives the next one the same reader, if nothing
// has read it: so that has not ended.
func (t *replayBody) taken() *replayReader {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reader != nil && !t.reader.read {
		t.reader.err = nil
	}
	return t.reader
}

// readOn reads one piece of the client's body.
func (t *replayBody) readOn() {
	piece := pieces.Get().(*[pieceBytes]byte)
	defer pieces.Put(piece)
	n := 0
	// A panic would end the process, for this is no handler's goroutine.
	err := supervisor.Protect(func() (err error) {
		n, err = t.src.Read(piece[:])
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading, t.err = false, err
	// a reader that is not here yet needs what is before it, and so does one that is still to come
	end := t.from + int64(len(t.kept))
	if end+int64(n) > replayBytes && t.reader.at == end && t.reader.err == nil {
		if t.from == 0 {
			t.kept = nil // the last piece needs less room
		}
		t.from, t.kept = end, t.kept[:0]
	}
	if !t.closed {
		t.kept = append(t.kept, piece[:n]...)
	}
	t.changed.Broadcast()
}

var (
	errUnwanted = errors.New("the body is not wanted any more")
	errOverrun  = errors.New("the beginning of the body is not at hand any more")
)

// replayReader is what one attempt sends.
type replayReader struct {
	body  *replayBody
	at    int64
	read  bool  // a Read has begun
	waits bool  // for the client; or did so when it ended
	err   error // it has ended
}

func (p *replayReader) Read(b []byte) (int, error) {
	t := p.body
	t.mu.Lock()
	defer t.mu.Unlock()
	p.read = true
	for {
		switch end := t.from + int64(len(t.kept)); {
		case p.err != nil:
			return 0, p.err
		case t.closed, t.reader != p:
			return 0, errUnwanted
		case p.at < t.from:
			return 0, errOverrun
		case p.at < end:
			n := copy(b, t.kept[p.at-t.from:])
			p.at += int64(n)
			p.waits = false
			return n, nil
		case t.err != nil:
			return 0, t.err
		}
		if !t.reading {
			t.reading = true
			go t.readOn()
		}
		p.waits = true
		t.changed.Wait()
	}
}

// endWith ends it with an error, also a Read that waits for the client.
func (p *replayReader) endWith(err error) {
	p.body.mu.Lock()
	defer p.body.mu.Unlock()
	p.end(err)
}

// end is endWith for who has the body's mu.
func (p *replayReader) end(err error) {
	if p.err == nil {
		p.err = err
		p.body.changed.Broadcast()
	}
}

// Close does not wait for a read that is under way.
func (p *replayReader) Close() error {
	p.endWith(errUnwanted)
	return nil
}
