package devzookeeper

import "time"

// Save returns a function that restores what the servers have now: nodes, sessions and the newest
// zxid. Sessions begin their timeouts anew. Restore while the servers are stopped.
func (s *Server) Save() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tree, zxid, timeouts := s.tree.copy(), s.zxid, map[int64]time.Duration{}
	for id, of := range s.sessions {
		timeouts[id] = of.timeout
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.replace(tree.copy(), zxid, timeouts)
	}
}

// Lose has the servers, which are stopped, lose all that they have.
func (s *Server) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(newTree(), 0, nil)
}

func (s *Server) replace(tree *tree, zxid int64, timeouts map[int64]time.Duration) {
	s.tree, s.zxid, s.first, s.done = tree, zxid, zxid, nil
	s.sessions = map[int64]*session{}
	for id, timeout := range timeouts {
		s.keep(id, timeout, nil).expires.Stop() // until Start
	}
}
