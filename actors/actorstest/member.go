package actorstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
)

// Member is one member of a Cluster, running.
type Member struct {
	id      string
	cluster *Cluster
	coord   *actors.Coordinator
	wire    *wire
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // valid when done is closed
	stop    sync.Once
	excused bool // it could not stop cleanly
}

// Start runs a member until the end of the test, or until it is stopped. Its id must not be that of
// one that runs. A nil work is one that does nothing until its context ends. Configure changes the
// settings before it starts: the service's own TTL, a Lead function, a Logger.
func (c *Cluster) Start(id string, work actors.Work, configure ...func(*actors.Config)) *Member {
	c.t.Helper()
	c.mu.Lock()
	nth := len(c.members) + 1
	c.mu.Unlock()
	m := &Member{id: id, cluster: c, wire: newWire(c.consul.RoundTripper()),
		done: make(chan struct{})}
	if work == nil {
		work = func(ctx context.Context, _ actors.Item) error { <-ctx.Done(); return nil }
	}
	name := fmt.Sprintf("%s-%d", id, nth) // of its host and its boot: a restart is on another host
	cfg := actors.Config{
		Host: actors.Host{Process: &actors.Process{Instance: name, Host: name, BootID: name,
			PIDNamespace: "1",
			PID:          1, StartTime: 1}},
		Service: Service, ID: id, Client: devconsul.ClientOver(m.wire),
		Logger: c.log(), Work: work,
	}
	for _, f := range configure {
		f(&cfg)
	}
	if work := cfg.Work; work != nil {
		cfg.Work = func(ctx context.Context, item actors.Item) error {
			defer c.begin(id, item.ID, item.Token)()
			return work(ctx, item)
		}
	}
	var err error
	if m.coord, err = actors.New(cfg); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = m.coord.Run(ctx)
	}()
	c.t.Cleanup(m.Stop)
	return m
}

// Coordinator is the member itself: its states, its KV, its router, its config store.
func (m *Member) Coordinator() *actors.Coordinator { return m.coord }

// Stop is a clean stop, and waits for its end. The second call does nothing.
func (m *Member) Stop() {
	m.cluster.t.Helper()
	m.stop.Do(func() {
		m.cancel()
		<-m.done
		if m.err != nil && !m.excused {
			m.cluster.t.Errorf("%s did not stop cleanly: %v", m.id, m.err)
		}
	})
}

// Lose is the loss of its machine: Consul hears nothing of it any more, and its work is told to end
// at once; Lose returns when it has. Others take over when Consul has noticed, by the member's
// health check, and its lease is over: within 19 s with the usual settings.
func (m *Member) Lose() {
	m.CutOff()
	m.Stop()
}

// CutOff breaks its connection to Consul, as a network does: what is under way is lost, and every
// request fails until Mend. The member stops its work before its lease ends, and goes on by itself
// when it can.
func (m *Member) CutOff() {
	m.excused = true
	m.wire.cut()
}

// Mend ends a CutOff.
func (m *Member) Mend() {
	m.excused = false
	m.wire.mend()
}

var errCut = errors.New("actorstest: cut off from Consul")

// wire is one's way to Consul.
type wire struct {
	to http.RoundTripper

	mu    sync.Mutex
	whole context.Context // until it is cut
	end   func()
}

func newWire(to http.RoundTripper) *wire {
	w := &wire{to: to}
	w.mend()
	return w
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole, w.end = context.WithCancel(context.Background())
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	if whole.Err() != nil {
		return nil, errCut
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // the answer is in memory when RoundTrip returns
	defer context.AfterFunc(whole, cancel)()
	resp, err := w.to.RoundTrip(r.WithContext(ctx))
	if whole.Err() != nil && r.Context().Err() == nil {
		return nil, errCut
	}
	return resp, err
}
