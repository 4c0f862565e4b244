package devconsul

import "time"

// leadership is one reign: from an election's end to the next one's start.
type leadership struct {
	lost   chan struct{} // closed when the leader is gone
	lostAt time.Time     // valid once lost is closed
}

func newLeadership() *leadership { return &leadership{lost: make(chan struct{})} }

func (l *leadership) isLost() bool { return isClosed(l.lost) }

// ElectionStart takes the leader away. Until ElectionEnd every write and every read but a stale one fails
// with 500 "No cluster leader", blocking queries that wait at this moment included, and no session
// expires. They fail at once, where Consul first holds them for up to 7 s (rpc_hold_timeout).
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
// agent has seen meanwhile.
func (s *Server) ElectionEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed || !s.leadership.Load().isLost() {
		return
	}
	s.leadership.Store(newLeadership())
	s.resetTimersLocked()
	s.syncAgentLocked()
}
