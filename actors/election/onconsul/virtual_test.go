package onconsul_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// TestEmbedded plays all scenarios on the embedded Consul, in virtual time.
func TestEmbedded(t *testing.T) {
	electiontest.Run(t, func(t *testing.T, play func(*testing.T, electiontest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			s := newEmbedded(t)
			defer s.consul.Close()
			play(t, s)
		})
	})
}

// embedded is a Consul in this process.
type embedded struct {
	t      *testing.T
	consul *devconsul.Server
	log    *slog.Logger

	mu   sync.Mutex
	down chan struct{} // not nil: the server is stopped; closed when it is back
}

// bubble runs a test in virtual time beside an embedded store.
func bubble(t *testing.T, f func(t *testing.T, s *embedded)) {
	synctest.Test(t, func(t *testing.T) {
		s := newEmbedded(t)
		defer s.consul.Close()
		f(t, s)
	})
}

func newEmbedded(t *testing.T) *embedded {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	return &embedded{t: t, consul: devconsul.New(devconsul.Config{Logger: quiet, NoJitter: true}),
		log: quiet}
}

func (s *embedded) Virtual() bool { return true }

func (s *embedded) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = make(chan struct{})
}

func (s *embedded) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.down)
	s.down = nil
}

func (s *embedded) Restore() {
	if err := s.consul.Restore(s.consul.Snapshot()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *embedded) Connect() electiontest.Link {
	w := &wire{next: s.consul.RoundTripper(), server: s}
	return connect(s.t, onconsul.Config{Client: devconsul.ClientOver(w), Logger: s.log}, w,
		s.consul.Client())
}

// over connects to this Consul by way of next.
func (s *embedded) over(next http.RoundTripper) *onconsul.Conn {
	s.t.Helper()
	conn, err := onconsul.Connect(onconsul.Config{Client: devconsul.ClientOver(next),
		Logger: s.log})
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// slow connects to this Consul by a way that is slower by 20 ms with each answer than over's.
func (s *embedded) slow() *onconsul.Conn {
	s.t.Helper()
	return s.over(transport.Slow(s.consul.RoundTripper(), func() time.Duration {
		return 20 * time.Millisecond
	}))
}

// joins takes part in the contested election, and gives the others a second to see it.
func (s *embedded) joins(over *onconsul.Conn, name string, priority int) *election.Election {
	s.t.Helper()
	e := nominated(s.t, over, election.Config{Election: contested, Name: name, Priority: priority,
		Lead: untilTold, Logger: s.log})
	time.Sleep(time.Second)
	return e
}

// nominated takes part in an election.
func nominated(t *testing.T, over election.Connection, cfg election.Config) *election.Election {
	t.Helper()
	e, err := election.New(over, cfg)
	must(t, err)
	if _, err := e.Nominate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// untilTold is a duty that lasts until it is told to stop.
func untilTold(ctx context.Context, _ election.Status) error {
	<-ctx.Done()
	return nil
}

// wire is one connection's way to Consul, and where it is broken.
type wire struct {
	next   http.RoundTripper
	server *embedded // nil: a real one

	mu  sync.Mutex
	cut chan struct{} // not nil: cut; closed when it is mended
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (w *wire) state() (cut, down chan struct{}) {
	w.mu.Lock()
	cut = w.cut
	w.mu.Unlock()
	if w.server != nil {
		w.server.mu.Lock()
		down = w.server.down
		w.server.mu.Unlock()
	}
	return cut, down
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	cut, down := w.state()
	switch {
	case down != nil:
		return nil, errRefused
	case cut != nil: // what is sent meets nobody
		return lost(ctx, cut)
	}
	if w.server != nil {
		time.Sleep(500 * time.Microsecond)
	}
	resp, err := w.next.RoundTrip(r)
	cut, down = w.state()
	if err == nil && (cut != nil || down != nil) { // the answer does not arrive
		resp.Body.Close()
		if down != nil {
			return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		}
		return lost(ctx, cut)
	}
	return resp, err
}

// lost is what becomes of a request on a wire that is cut. The client's own Lock sets no deadlines:
// mending ends it for that one.
func lost(ctx context.Context, cut chan struct{}) (*http.Response, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-cut:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
}

// link is a connection that a scenario can break.
type link struct {
	*onconsul.Conn
	t        *testing.T
	wire     *wire
	operator *api.Client
}

func connect(t *testing.T, cfg onconsul.Config, w *wire, operator *api.Client) *link {
	c, err := onconsul.Connect(cfg)
	must(t, err)
	return &link{Conn: c, t: t, wire: w, operator: operator}
}

func (l *link) End() {
	session := l.Contact().Get().Session
	if session == "" {
		return // a busy machine has cost it just now
	}
	_, err := l.operator.Session().Destroy(session, nil)
	for range 5 {
		// The server closed an idle connection as it was asked, and Go sends no PUT twice.
		// Destroying a dead session succeeds.
		if !errors.Is(err, io.EOF) {
			break
		}
		_, err = l.operator.Session().Destroy(session, nil)
	}
	if err != nil {
		l.t.Error(err)
	}
}

func (l *link) Cut()  { l.wire.sever() }
func (l *link) Mend() { l.wire.mend() }

func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = nil
}

func TestSettingsThatCannotBeAreAllNamedAtOnce(t *testing.T) {
	_, err := onconsul.Connect(onconsul.Config{TTL: time.Second, Renew: time.Hour, Prefix: "x"})
	if !errors.Is(err, election.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"Client", "TTL", "Renew", "Prefix"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
}

// untilLeads waits until e leads, an hour at the most, and returns how long that took.
func untilLeads(e *election.Election) time.Duration {
	begin := time.Now()
	for e.State().Get().Role != election.Leading && time.Since(begin) < time.Hour {
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(begin)
}
