package dispatch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/httpserver"
)

// idleConn is a connection to a member that ends when no byte has passed in either direction for as
// long as is allowed; and when the member takes nothing of a request for a shorter time, until it
// begins to answer.
type idleConn struct {
	net.Conn
	idleTimeout  time.Duration
	writeTimeout time.Duration
	// how many requests have begun, which of them was the last that the member has answered, and
	// during which it sent anything last
	begun, answered, heard atomic.Uint64
	// body is what the request that began last is read from; nil: it is no client's
	body atomic.Pointer[replayReader]
	// unreadable is closed when nothing more is read, as a read has failed, for which broke is the
	// reason then, or it is closed here
	unreadable chan struct{}
	broke      error
	ended      sync.Once
	// when the deadline was last set, in nanoseconds since the connection was made
	deadlineSet atomic.Int64
	made        time.Time
}

func newIdleConn(c net.Conn, most, taking time.Duration) *idleConn {
	i := &idleConn{Conn: c, idleTimeout: most, writeTimeout: taking, made: time.Now(),
		unreadable: make(chan struct{})}
	_ = c.SetDeadline(i.made.Add(rolling(most)))
	return i
}

// rolling is how far ahead a deadline is set that is not moved for every byte, because an eighth of
// the time is not worth a call: so that the last byte has all of the time behind it.
func rolling(most time.Duration) time.Duration { return most + most/8 }

// begin is for a request that is about to be written, and for what its body is read from, which
// ends with the connection, also if that has ended. It returns which request that is.
func (c *idleConn) begin(body *replayReader) uint64 {
	c.body.Store(body)
	n := c.begun.Add(1)
	select {
	case <-c.unreadable:
		c.endBody()
	default: // whoever closes it ends what is stored by now
	}
	return n
}

// Close ends the body as well. Or net/http, which waits for whoever sends that, would tell nobody
// that the member has died, or that the request is over, for as long as the client rests.
func (c *idleConn) Close() error {
	err := c.Conn.Close()
	c.readsNoMore(nil)
	c.endBody()
	return err
}

func (c *idleConn) endBody() {
	if body := c.body.Swap(nil); body != nil {
		body.endWith(c.lost())
	}
}

func (c *idleConn) readsNoMore(why error) {
	c.ended.Do(func() {
		c.broke = why
		close(c.unreadable)
	})
}

// lost is why the connection ended, when nothing more is read.
func (c *idleConn) lost() error {
	switch {
	case c.broke == nil:
		return errUnwanted
	case lostUnanswered(c.broke) && c.heard.Load() == c.begun.Load(): // within an answer
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the connection was lost: %w", c.broke)
}

// answer is for the answer to the nth request, which is here as soon as its head is. If another
// request has begun since, it changes nothing.
func (c *idleConn) answer(n uint64) {
	if n != c.begun.Load() {
		return
	}
	c.answered.Store(n)
	c.setDeadline(time.Since(c.made)) // also for the write that is under way
}

func (c *idleConn) isAnswered() bool { return c.answered.Load() == c.begun.Load() }

// extendDeadline moves the deadline, but not for every byte.
func (c *idleConn) extendDeadline() {
	now := time.Since(c.made)
	if last := c.deadlineSet.Load(); now-time.Duration(last) >= c.idleTimeout/8 {
		c.setDeadline(now)
	}
}

// setDeadline gives the connection all of its time from now, which is counted since it was made.
// Until there is an answer, what is written has a time of its own: whatever the member sends, it
// may only be an interim answer (100 Continue, 103 Early Hints).
func (c *idleConn) setDeadline(now time.Duration) {
	c.deadlineSet.Store(int64(now))
	end := c.made.Add(now + rolling(c.idleTimeout))
	if c.isAnswered() {
		_ = c.Conn.SetDeadline(end)
	} else {
		_ = c.Conn.SetReadDeadline(end)
	}
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.extendDeadline()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(c.begun.Load())
		c.extendDeadline()
	}
	if err != nil {
		c.readsNoMore(err)
	}
	return n, err
}

func (c *idleConn) Write(p []byte) (int, error) {
	c.extendDeadline()
	if !c.isAnswered() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.writeTimeout))
		if c.isAnswered() { // meanwhile
			_ = c.Conn.SetWriteDeadline(time.Now().Add(rolling(c.idleTimeout)))
		}
	}
	n, err := c.Conn.Write(p)
	if err != nil && lostUnanswered(err) {
		c.readAnswer()
	}
	return n, err
}

// answerTime is what an answer has to be read that came before the member closed the connection.
const answerTime = 200 * time.Millisecond

// readAnswer is for a member that has closed the connection: net/http closes it as well when it
// hears so, also where an answer is here that it has not read yet. What has begun is read to its
// end, as fast as its client takes it.
func (c *idleConn) readAnswer() {
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case <-c.unreadable:
	case <-timer.C:
		if c.isAnswered() {
			<-c.unreadable
		}
	}
}

// CloseWrite tells the member that nothing more comes on an upgraded connection, and lets it go on.
func (c *idleConn) CloseWrite() error { return closeWrite(c.Conn) }

// deadline is when a connection's next byte has to be through. It is not moved for every byte.
type deadline struct{ at time.Time }

// move sets it so that so much is left, an eighth of most more at the most; false: it is so.
func (d *deadline) move(now time.Time, left, most time.Duration) bool {
	end := now.Add(left)
	if rolled := end.Add(most / 8); d.at.Before(end) || d.at.After(rolled) {
		d.at = rolled
		return true
	}
	return false
}

// client is the connection to the client. Until the answer begins it has to send its body piece by
// piece, each in time, and from then on something now and then. The answer it has to take piece by
// piece. The time in which nobody waits for it does not count.
type client struct {
	http.ResponseWriter
	ctrl        *http.ResponseController
	idleTimeout time.Duration
	sent, taken httpserver.Pieces
	// its deadlines are timers of an HTTP/2 stream, see [httpserver.DeadlinesAreTimers]
	timers                      bool
	mu                          sync.Mutex // of the deadlines: a body may go on beside the answer
	readDeadline, writeDeadline deadline
	reading                     bool // a read of the body is under way
	noMore                      bool // nor has any other the time for a byte
	// over: the handler returns, and its connection is no more its own. A read of the body may be
	// under way still, in a goroutine of the transport's.
	over bool
	// when all of the answer has to be taken; zero: there is no such time
	answerDeadline time.Time
	body           io.Reader
	hasBody        bool
	// the server sends 100 Continue when the body is read first: here in HTTP/1.1 only
	continues bool
	// What is no answer yet is passed on to it. Not in HTTP/2: net/http reads a hint's headers there
	// until it is sent, and returns before that when the stream is closed. Nor in HTTP/1.0, which
	// has no such thing.
	interim bool
	// So are hints. Not to one that waits to be told to continue: the server tells it in the
	// goroutine that reads the body, and guards only that.
	hints     bool
	bodyEnded atomic.Bool
	answering atomic.Bool
}

// minTimeout is the least time that each piece of a body or of an answer may take the client.
const minTimeout = 30 * time.Second

// lingerTime is what the rest of a body that nobody wants gets to arrive, behind the answer.
const lingerTime = 5 * time.Second

func newClient(w http.ResponseWriter, r *http.Request, most, timeout time.Duration) *client {
	pieces := httpserver.Pieces{Pace: min(most, max(timeout, minTimeout))}
	c := &client{ResponseWriter: w, ctrl: http.NewResponseController(w), idleTimeout: most,
		sent: pieces, taken: pieces, body: r.Body, timers: httpserver.DeadlinesAreTimers(r)}
	c.interim = !c.timers && r.ProtoAtLeast(1, 1)
	c.hints = c.interim && r.Header.Get("Expect") == ""
	if c.hasBody = r.Body != nil && r.ContentLength != 0; c.hasBody {
		c.continues = c.interim && !c.hints
		// an answer that comes before the body has ended is sent at once
		_ = c.ctrl.EnableFullDuplex()
		if !c.timers {
			// also of a body that nobody reads: the server takes it off the connection
			c.extendReadDeadline(time.Now())
		}
	}
	return c
}

// extendReadDeadline gives the client the time for the rest of its piece, or to send something
// beside the answer. Not every connection can.
func (c *client) extendReadDeadline(now time.Time) {
	left, most := c.sent.Left(), c.sent.Pace
	if c.answering.Load() {
		left, most = c.idleTimeout, c.idleTimeout
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = true
	if c.readDeadline.move(now, left, most) && !c.noMore {
		c.setReadDeadline(c.readDeadline.at)
	}
}

// endReading ends a read of the body that is under way or about to begin.
func (c *client) endReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noMore = true
	c.setReadDeadline(time.Now())
}

// setReadDeadline needs c.mu. Behind a body that has ended there is none, whoever was about to set
// it: the server takes it for the client's going.
func (c *client) setReadDeadline(at time.Time) {
	if !c.over && (at.IsZero() || !c.bodyEnded.Load()) {
		_ = c.ctrl.SetReadDeadline(at)
	}
}

// setWriteDeadline needs c.mu.
func (c *client) setWriteDeadline(at time.Time) {
	if !c.over {
		_ = c.ctrl.SetWriteDeadline(at)
	}
}

// endRead takes the deadline of a read away that is over.
func (c *client) endRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if c.timers {
		c.readDeadline = deadline{}
		c.setReadDeadline(time.Time{})
	}
}

// Hijack is for an upgraded connection: what the member sends has to be taken in time on it, too.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := c.ctrl.Hijack()
	if err != nil {
		return nil, nil, err
	}
	taker := &upgradedClient{Conn: conn, writeTimeout: c.taken.Pace, idleTimeout: c.idleTimeout}
	if !c.hasBody || c.bodyEnded.Load() { // else it is the body's, which is still read
		taker.sent = buf.Reader
	}
	return taker, bufio.NewReadWriter(bufio.NewReader(taker), bufio.NewWriter(taker)), nil
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *client) Write(p []byte) (int, error) {
	c.beginAnswer()
	now := time.Now()
	c.extendWriteDeadline(now)
	n, err := c.ResponseWriter.Write(p)
	c.endWrite(n, now)
	return n, err
}

// extendWriteDeadline gives the client the time to take the rest of its piece. However little that
// is: the buffers may be full of earlier answers.
func (c *client) extendWriteDeadline(now time.Time) {
	c.moveWriteDeadline(now, c.taken.Left())
}

func (c *client) moveWriteDeadline(now time.Time, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.writeDeadline.move(now, left, c.taken.Pace) {
		return
	}
	end := c.writeDeadline.at
	if !c.answerDeadline.IsZero() && c.answerDeadline.Before(end) {
		end = c.answerDeadline
	}
	c.setWriteDeadline(end)
}

// endWrite counts what was written, and takes the deadline of a write away that is over.
func (c *client) endWrite(n int, began time.Time) {
	c.taken.Add(n, time.Since(began))
	if c.timers {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.writeDeadline = deadline{}
		c.setWriteDeadline(time.Time{})
	}
}

// FlushError is for the proxy, by way of http.ResponseController: it flushes the headers before
// there is a body, and each part of the body, which ends no piece.
func (c *client) FlushError() error {
	now := time.Now()
	c.extendWriteDeadline(now)
	err := c.ctrl.Flush()
	c.endWrite(0, now)
	return err
}

// limitAnswer gives the client so much time for the answer as a whole, beside what its last piece
// has.
func (c *client) limitAnswer(d time.Duration) {
	c.answerDeadline = time.Now().Add(d + c.taken.Pace)
}

func (c *client) WriteHeader(status int) {
	switch {
	case status >= 200:
		c.beginAnswer()
	case status == http.StatusContinue && c.interim, c.hints: // no answer yet, and sent at once
	default:
		return
	}
	if status < 200 { // the proxy passes on what is said in it
		dropOurs(c.Header())
	}
	now := time.Now()
	c.extendWriteDeadline(now)
	c.ResponseWriter.WriteHeader(status)
	c.endWrite(0, now)
}

// beginAnswer is for the beginning of the answer. One that begins before the body has ended is the
// connection's last: in full duplex the server takes whatever is left of a body that broke off for
// the next request. Not in HTTP/2, where the rest is of a stream of its own, and other requests are
// on the connection.
func (c *client) beginAnswer() {
	if c.answering.Swap(true) || !c.hasBody || c.bodyEnded.Load() {
		return
	}
	if !c.timers {
		c.Header().Set("Connection", "close")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading || !c.timers {
		// the body may go on beside the answer, also the read that is under way
		c.setReadDeadline(time.Now().Add(rolling(c.idleTimeout)))
	}
}

// Read reads the request's body.
func (c *client) Read(p []byte) (int, error) {
	now := time.Now()
	paced := !c.answering.Load()
	c.extendReadDeadline(now)
	if paced && c.answering.Load() { // meanwhile
		c.extendReadDeadline(now)
	}
	n, err := c.read(p)
	c.endRead()
	c.sent.Add(n, time.Since(now))
	return n, err
}

func (c *client) read(p []byte) (int, error) {
	if c.continues {
		c.continues = false
		c.moveWriteDeadline(time.Now(), c.taken.Pace)
	}
	n, err := c.body.Read(p)
	if err == io.EOF {
		c.bodyEnded.Store(true)
		// from here on the server listens for the client's going
		c.limitReading(time.Time{})
	}
	return n, err
}

func (c *client) limitReading(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setReadDeadline(until)
}

// readAll reads a body of at most so many bytes, which have to be here within a time, however
// busily they are sent, and before ctx ends. What a small body has not counts in the limit.
func (c *client) readAll(ctx context.Context, most int64, room *limit,
	within time.Duration) ([]byte, int64, error) {
	c.limitReading(time.Now().Add(within))
	defer context.AfterFunc(ctx, func() { c.limitReading(time.Now()) })()
	return room.readAll(readerFunc(c.read), smallBytes, most)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// done gives the client the time for what the server still holds of the answer, and sends behind
// the handler. Of a body that was not read to its end the server reads what is left. It is the last
// that the handler does.
func (c *client) done() {
	if c.hasBody && !c.bodyEnded.Load() {
		c.beginAnswer()
		c.limitReading(time.Now().Add(min(c.idleTimeout, lingerTime)))
	}
	c.taken.Next()
	c.extendWriteDeadline(time.Now()) // the server takes it away with the request
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}
