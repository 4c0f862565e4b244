package relay

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// secondTry is how long a second delivery may take.
const secondTry = 30 * time.Second

// Repeat has each request that is to change something (neither GET nor HEAD) delivered a second
// time from now on: half of them at once, by another connection, so that either copy may be the
// first, the others at any time up to most later. Whoever sent it hears of the first delivery only.
// With most 0, which is how a relay begins, nothing is repeated any more; what is under way still
// arrives. A relay knows requests where it can read them: with TLS it repeats nothing.
func (r *Relay) Repeat(most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = max(most, 0)
}

func (r *Relay) repeats() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// Repeated tells how many requests were answered a second time so far.
func (r *Relay) Repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeated
}

// tap reads along what a client sends.
type tap struct {
	chunks chan chunk
	done   chan struct{}

	rest []byte        // of the last chunk
	most time.Duration // what Repeat said when that came
}

// chunk is bytes from the client, with what Repeat said when they came. It may say something else
// by the time that they are read.
type chunk struct {
	bytes []byte
	most  time.Duration
}

func (r *Relay) tapped() *tap {
	e := &tap{chunks: make(chan chunk), done: make(chan struct{})}
	go func() {
		defer close(e.done)
		requests := bufio.NewReader(e)
		for {
			req, err := http.ReadRequest(requests)
			if err != nil {
				break
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				break
			}
			r.again(req, body, e.most)
		}
		_, _ = io.Copy(io.Discard, e) // no HTTP, or its end
	}()
	return e
}

func (t *tap) copy(b []byte, most time.Duration) {
	if t != nil {
		t.chunks <- chunk{bytes.Clone(b), most}
	}
}

func (t *tap) Read(b []byte) (int, error) {
	if len(t.rest) == 0 {
		next, ok := <-t.chunks
		if !ok {
			return 0, io.EOF
		}
		t.rest, t.most = next.bytes, next.most
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *tap) close() {
	close(t.chunks)
	<-t.done
}

// again delivers a request a second time at any time up to most later; 0: not.
func (r *Relay) again(req *http.Request, body []byte, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if most <= 0 || r.over() || req.Method == http.MethodGet || req.Method == http.MethodHead {
		return
	}
	wait := time.Duration(0)
	if rand.IntN(2) == 0 {
		wait = rand.N(most)
	}
	r.running.Go(func() {
		select {
		case <-time.After(wait):
			if r.deliver(req, body) == nil {
				r.mu.Lock()
				r.repeated++
				r.mu.Unlock()
			}
		case <-r.closed:
		}
	})
}

func (r *Relay) deliver(req *http.Request, body []byte) error {
	c, err := net.DialTimeout("tcp", r.server, 5*time.Second)
	if err != nil {
		return err
	}
	if !r.keep(c) {
		return net.ErrClosed
	}
	defer r.drop(c)
	_ = c.SetDeadline(time.Now().Add(secondTry))
	req.Body, req.ContentLength, req.TransferEncoding,
		req.Close = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil, true
	if err := req.Write(c); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return err
}
