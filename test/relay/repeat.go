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

// Repeat has each request that is to change something (neither GET nor HEAD) delivered a second time from now on: half of
// them at once, by another connection, so that either copy may be the first, the others at any time up to most
// later. Whoever sent it hears of the first delivery only. With most 0, which is how a relay begins, nothing is repeated any more;
// what is under way still arrives. A relay knows requests where it can read them: with TLS it repeats nothing.
func (r *Relay) Repeat(most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeat, r.most = most > 0, most
}

// Repeated tells how many requests were answered a second time so far.
func (r *Relay) Repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeated
}

// ear reads along what a client sends.
type ear struct {
	in   *io.PipeWriter
	done chan struct{}
}

func (r *Relay) listenIn() *ear {
	out, in := io.Pipe()
	e := &ear{in: in, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		requests := bufio.NewReader(out)
		for {
			req, err := http.ReadRequest(requests)
			if err != nil {
				break
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				break
			}
			r.again(req, body)
		}
		_, _ = io.Copy(io.Discard, out) // no HTTP, or its end
	}()
	return e
}

func (e *ear) hear(b []byte) {
	if e != nil {
		_, _ = e.in.Write(b)
	}
}

func (e *ear) close() {
	e.in.Close()
	<-e.done
}

// again delivers a request a second time, if that is wanted.
func (r *Relay) again(req *http.Request, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.repeat || r.over() || req.Method == http.MethodGet || req.Method == http.MethodHead {
		return
	}
	wait := time.Duration(0)
	if rand.IntN(2) == 0 {
		wait = rand.N(r.most)
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
	req.Body, req.ContentLength, req.TransferEncoding, req.Close = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil, true
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
