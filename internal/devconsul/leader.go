package devconsul

import (
	"errors"
	"time"
)

// leadership lasts from the end of an election to the start of the next one.
type leadership struct {
	lost   chan struct{} // closed when the leader is gone
	lostAt time.Time     // valid once lost is closed

	// behind is what the leader has applied of its log while it replays it; nil: it had everything
	// from the start.
	behind *state
	ready  chan struct{} // closed when it has caught up
}

func newLeadership() *leadership { return &leadership{lost: make(chan struct{})} }

func (l *leadership) isLost() bool { return isClosed(l.lost) }

func (l *leadership) isBehind() bool { return l.behind != nil && !isClosed(l.ready) }

// applies says whether the leader takes writes.
func (l *leadership) applies() bool { return !l.isLost() && !l.isBehind() }

// errNotReady is Consul's answer to a consistent read while its new leader replays its log.
var errNotReady = errors.New("rpc error making call: Not ready to serve consistent reads")

// ElectionStart takes the leader away. Until ElectionEnd every write and every read but a stale one
// fails with 500 "No cluster leader", blocking queries that wait at this moment included, and no
// session expires. They fail at once, where Consul first holds them for up to 7 s
// (rpc_hold_timeout).
func (s *Server) ElectionStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leadership.Load()
	if s.isClosed || l.isLost() {
		return
	}
	l.lostAt = time.Now()
	close(l.lost)
	s.stopTimersLocked()
}

// ElectionEnd installs a leader again. It gives every session its full twice the TTL anew, as a
// leader of Consul does that has just been elected, and brings the catalog up to date with what the
// agent has seen meanwhile. After ElectionEndBehind it lets the leader catch up.
func (s *Server) ElectionEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leadership.Load()
	switch {
	case s.isClosed || l.applies():
		return
	case l.isLost():
		s.leadership.Store(newLeadership())
	default:
		close(l.ready)
	}
	s.resetTimersLocked()
	s.syncAgentsLocked()
}

// ElectionEndBehind installs a leader that has applied its log only up to past, as a server does
// that was restarted and has just won its election. Until ElectionEnd it answers reads of the
// default mode, and renewals, from the past: a key that was written since is missing, one that was
// deleted is back, a session that was made since is 404 although it is alive, and one that has
// ended since is renewed with 200. Consistent reads fail with 500 and writes with "No cluster
// leader"; Consul holds both for up to 7 s first. (Seen with 14,000 log entries of 20 KB: 800 ms of
// it. In Consul's source, Session.Renew and reads of the default mode look at the leader's state
// store; only consistent reads ask whether it has caught up.)
func (s *Server) ElectionEndBehind(past Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed || !s.leadership.Load().isLost() {
		return
	}
	l := newLeadership()
	l.behind, l.ready = past.state, make(chan struct{})
	s.leadership.Store(l)
}
