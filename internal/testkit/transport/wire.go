package transport

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Wire is one client's way to Consul. A test cuts it, freezes it, leads it another way, counts what
// passes, or has chosen transactions go astray.
type Wire struct {
	mu    sync.Mutex
	to    http.RoundTripper
	err   error          // not nil: cut
	mute  chan struct{}  // not nil: frozen; closed when it thaws
	txns  int            // so far
	odd   map[int]Func   // by the number of a transaction
	count map[string]int // by method and path
}

// NewWire returns a wire that leads to a transport.
func NewWire(to http.RoundTripper) *Wire {
	return &Wire{to: to, odd: map[int]Func{}, count: map[string]int{}}
}

// Via sends everything another way from now on.
func (w *Wire) Via(to http.RoundTripper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// To is where the wire leads.
func (w *Wire) To() http.RoundTripper {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to
}

// Cut fails every request from now on, and those under way. Nil mends the wire.
func (w *Wire) Cut(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// Freeze accepts requests and answers none until Thaw, those under way included.
func (w *Wire) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = make(chan struct{})
}

// Thaw lets everything go on that has waited since Freeze.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.mute)
	w.mute = nil
}

// Next has the i-th transaction from now on (1: the next one) go by odd.
func (w *Wire) Next(i int, odd Func) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.odd[w.txns+i] = odd
}

// Requests is how often each call ("PUT /v1/txn") was made since the last time.
func (w *Wire) Requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := w.count
	w.count = map[string]int{}
	return count
}

// Lose is the function Lose on this wire.
func (w *Wire) Lose(r *http.Request) (*http.Response, error) { return Lose(w.To())(r) }

// Late is the function Late on this wire.
func (w *Wire) Late(d time.Duration) Func { return Late(w.To(), d) }

// Twice is the function Twice on this wire.
func (w *Wire) Twice(d time.Duration) Func { return Twice(w.To(), d) }

// Slow has each answer from now on take its time on this wire, as the function Slow says.
func (w *Wire) Slow(takes func() time.Duration) { w.Via(Slow(w.To(), takes)) }

// RoundTrip carries a request as the wire is.
func (w *Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	to := w.to
	w.count[r.Method+" "+r.URL.Path]++
	if r.URL.Path == "/v1/txn" {
		w.txns++
		if odd := w.odd[w.txns]; odd != nil {
			to = odd
		}
	}
	w.mu.Unlock()
	if err := w.holds(r); err != nil {
		return nil, err
	}
	resp, err := to.RoundTrip(r)
	if broken := w.holds(r); broken != nil { // while it was under way: the answer stays there
		if err == nil {
			resp.Body.Close()
		}
		return nil, broken
	}
	return resp, err
}

// holds waits while the wire is frozen. It returns what is wrong with it.
func (w *Wire) holds(r *http.Request) error {
	w.mu.Lock()
	err, mute := w.err, w.mute
	w.mu.Unlock()
	if err != nil || mute == nil {
		return err
	}
	select {
	case <-mute:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// Recorder keeps a copy of each request that Keep wants. Keep may be nil: each transaction.
type Recorder struct {
	To   http.RoundTripper
	Keep func(*http.Request) bool

	mu     sync.Mutex
	copies []*http.Request
}

// RoundTrip notes a request and carries it.
func (c *Recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	keep := c.Keep
	if keep == nil {
		keep = TxnWith()
	}
	if keep(r) {
		late := Copy(r)
		c.mu.Lock()
		c.copies = append(c.copies, late)
		c.mu.Unlock()
	}
	return c.To.RoundTrip(r)
}

// Copies are the copies so far, the oldest first. Again delivers them.
func (c *Recorder) Copies() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.copies)
}
