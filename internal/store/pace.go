package store

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// thinnest is the slowest line, in bytes a second, on which what is large is read and written to
// its end: about 1 Mbit/s. A call has its own time, and what its size takes at this pace on top.
const thinnest = 128 << 10

// atThinnest is how long n bytes take on the slowest line. What fits into a few packets takes no
// time.
func atThinnest(n int) time.Duration {
	const few = 64 << 10
	return time.Duration(max(0, n-few)) * time.Second / thinnest
}

// pace is the deadline of one call. It is moved by what arrives: an answer may take longer than the
// call's timeout as long as it keeps coming, and not slower than the thinnest line.
type pace struct {
	timeout time.Duration
	begin   time.Time
	moves   func() // see WithReturns; nil: nobody asked
	token   string // see tokenOf

	mu    sync.Mutex
	timer *time.Timer
	bytes int
	ended bool

	expired atomic.Bool // the timer has ended the call
}

type paceKey struct{}

// paced is ctx with the deadline of a call.
func paced(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(ctx)
	p := &pace{timeout: timeout, begin: time.Now()}
	p.timer = time.AfterFunc(timeout, func() {
		p.expired.Store(true)
		cancel()
	})
	p.moves, _ = ctx.Value(returnsKey{}).(func())
	return context.WithValue(own, paceKey{}, p), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		p.timer.Stop()
		cancel()
	}
}

// arrived takes in that a part of the answer has arrived.
func (p *pace) arrived(n int) {
	if n > 0 && p.moves != nil {
		p.moves()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= 0 || p.ended {
		return
	}
	p.bytes += n
	p.timer.Reset(min(p.timeout, time.Until(p.begin.Add(p.timeout+atThinnest(p.bytes)))))
}

// silent tells whether the call under ctx has ended because its answer did not come in time.
func (p *pace) silent(ctx context.Context) bool {
	return p.expired.Load() || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// pacedTransport tells the call behind a request what arrives. After a call without an answer it
// closes the idle connections: they may be as dead as that call's own, which net/http closes.
type pacedTransport struct{ http.RoundTripper }

func (t pacedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	p, ok := r.Context().Value(paceKey{}).(*pace)
	switch {
	case !ok:
	case err != nil && p.silent(r.Context()):
		t.CloseIdleConnections()
	case err == nil && resp.Body != nil:
		p.arrived(1)
		resp.Body = &answerBody{resp.Body, p, r.Context(), t}
	}
	return resp, err
}

// CloseIdleConnections lets those of the transport behind it be closed.
func (t pacedTransport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// answerBody tells the call behind it what is read of its answer.
type answerBody struct {
	io.ReadCloser
	pace *pace
	ctx  context.Context
	by   pacedTransport
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.pace.arrived(n)
	if err != nil && err != io.EOF && b.pace.silent(b.ctx) {
		b.by.CloseIdleConnections()
	}
	return n, err
}

// pacedClient makes a client whose calls are told what arrives of their answers.
func pacedClient(cfg *api.Config) (*api.Client, error) {
	if given := cfg.HttpClient; given != nil {
		own := *given
		cfg.HttpClient = &own
	}
	token, err := renewedToken(cfg)
	if err != nil {
		return nil, err
	}
	// which makes the HTTP client where none was given, and keeps a pointer to it
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	to := cmp.Or(cfg.HttpClient.Transport, http.DefaultTransport)
	if token != nil {
		token.pacedTransport, to = pacedTransport{to}, token
	}
	cfg.HttpClient.Transport = pacedTransport{to}
	return client, nil
}
