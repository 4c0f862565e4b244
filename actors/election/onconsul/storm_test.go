package onconsul_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
)

// storm is one process's way to Consul, and the weather there: requests and answers are late or
// lost, and writes arrive a second time. A request that its sender has given up on arrives all the
// same. The way can be cut: nothing arrives in either direction. The process can be frozen: what it
// has just sent, and what it is to be answered, waits until it thaws.
type storm struct {
	consul *devconsul.Server

	mu   sync.Mutex
	r    *rand.Rand
	slow time.Duration // what a request and an answer may take, each
	late time.Duration // by how much a copy may be late
	calm bool
	cut  chan struct{} // not nil: cut; closed when it is mended
	ice  chan struct{} // not nil: frozen; closed when it thaws
	deaf bool          // the agent takes nothing that is for itself
	// not nil: called once, when the way is cut behind an answer that confirms a renewal and is
	// slow
	snare  func()
	trap   func() // not nil: called once, beside the request that comes after trapIn others
	trapIn int
}

// fate is what becomes of one request.
type fate struct {
	there, back time.Duration
	late        time.Duration
	lost        bool // on the way there
	unanswered  bool
	held        bool // it is late, and its sender does not know
	twice       bool
	stuck       bool // in a process that does not run: its deadline passes unseen
}

func (s *storm) draw(write bool) (f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	within := func(d time.Duration) time.Duration { return time.Duration(s.r.Int64N(int64(d) + 1)) }
	f = fate{there: 100*time.Microsecond + within(2*time.Millisecond),
		back: within(2 * time.Millisecond), stuck: s.r.IntN(2) == 0}
	if s.calm {
		return f
	}
	if s.r.IntN(3) == 0 {
		f.there, f.back = within(s.slow), within(s.slow)
	}
	switch n := s.r.IntN(40); {
	case n == 0:
		f.lost = true
	case n < 3:
		f.unanswered = true
	case write && n < 7:
		f.held, f.late = true, within(s.late)
	case write && n < 16:
		f.twice, f.late = true, within(s.late)
	}
	return f
}

func (s *storm) state() (cut, ice chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut, s.ice
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

func (s *storm) RoundTrip(r *http.Request) (*http.Response, error) {
	s.steps()
	late := transport.Copy(r)
	f := s.draw(r.URL.Path == "/v1/txn")
	_, ice := s.state()
	switch {
	case ice != nil && r.Method == http.MethodGet:
		select {
		case <-ice:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case ice != nil || f.held: // it will arrive, whoever waits for it
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if ice != nil {
				<-ice
			}
			time.Sleep(f.late)
			transport.Again(s.consul.RoundTripper(), late)
		}()
		select {
		case <-answered:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return nil, errReset
	case f.twice:
		go func() {
			time.Sleep(f.late)
			transport.Again(s.consul.RoundTripper(), late)
		}()
	}
	time.Sleep(f.there)
	if cut, _ := s.state(); cut != nil {
		return lost(r.Context(), cut)
	}
	if f.lost || s.muted() && strings.HasPrefix(r.URL.Path, "/v1/agent/") {
		return nil, errReset
	}
	resp, err := saysDelays(s.consul.RoundTripper()).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	snared := s.springs(r)
	if snared {
		f.back, f.unanswered = 1500*time.Millisecond, false
	}
	time.Sleep(f.back)
	if _, ice := s.state(); ice != nil {
		<-ice
	}
	cut, _ := s.state()
	switch {
	case cut != nil && !snared:
		resp.Body.Close()
		return lost(r.Context(), cut)
	case f.unanswered, r.Context().Err() != nil && !f.stuck && !snared:
		resp.Body.Close()
		return nil, errReset
	}
	return resp, nil
}

// saysDelays tells the judge of takes that a lock-delay refuses.
func saysDelays(to http.RoundTripper) transport.Func {
	return func(r *http.Request) (*http.Response, error) {
		take := takes(r)
		resp, err := to.RoundTrip(r)
		if err != nil || !take || resp.StatusCode != http.StatusConflict {
			return resp, err
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(text), "lock delay") {
			electiontest.Delayed(r.Context())
		}
		resp.Body = io.NopCloser(bytes.NewReader(text))
		return resp, err
	}
}

// takes picks the requests that take the leadership.
var takes = transport.TxnWith(`state/leader"`, `"lock"`)

// lay has the trap called as the request after n others is sent.
func (s *storm) lay(n int, trap func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trap, s.trapIn = trap, n
}

// steps counts a request, and springs the trap if this is its.
func (s *storm) steps() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trap == nil {
		return
	}
	if s.trapIn--; s.trapIn < 0 {
		go s.trap()
		s.trap = nil
	}
}

func (s *storm) set(snare func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snare = snare
}

// springs tells whether this answer was waited for, and lets happen what was to happen then.
func (s *storm) springs(r *http.Request) bool {
	s.mu.Lock()
	snare := s.snare
	if snare == nil || !strings.HasPrefix(r.URL.Path, "/v1/session/info/") {
		s.mu.Unlock()
		return false
	}
	s.snare = nil
	s.mu.Unlock()
	s.sever()
	snare()
	return true
}

func (s *storm) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut == nil {
		s.cut = make(chan struct{})
	}
}

func (s *storm) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		close(s.cut)
		s.cut = nil
	}
}

func (s *storm) mute(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = yes
}

func (s *storm) muted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf
}

func (s *storm) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ice == nil {
		s.ice = make(chan struct{})
	}
}

func (s *storm) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ice != nil {
		close(s.ice)
		s.ice = nil
	}
}

// settle ends all of it for good.
func (s *storm) settle() {
	s.mu.Lock()
	s.calm, s.snare, s.deaf = true, nil, false
	s.mu.Unlock()
	s.mend()
	s.thaw()
}

// freezes tells whether the process is to be frozen at this moment, and for how long.
func (s *storm) freezes() (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.r.IntN(8) == 0, time.Duration(s.r.IntN(40)) * time.Second
}

// chilly is a connection of a process that may be frozen as a duty begins: between its last look at
// the lease and the first act.
type chilly struct {
	election.Connection
	storm *storm
}

func (c chilly) Open(name string) (election.Backend, error) {
	b, err := c.Connection.Open(name)
	return chillyBackend{b, c.storm}, err
}

type chillyBackend struct {
	election.Backend
	storm *storm
}

// Contact is asked for just before a duty begins.
func (b chillyBackend) Contact() messages.Reader[election.Contact] {
	if yes, d := b.storm.freezes(); yes {
		b.storm.freeze()
		time.AfterFunc(d, b.storm.thaw)
	}
	if _, ice := b.storm.state(); ice != nil {
		<-ice
	}
	return b.Backend.Contact()
}
