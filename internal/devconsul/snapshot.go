package devconsul

import (
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix"
)

// Dump is all that the server stores for clients: keys in order of name, sessions in order of id.
type Dump struct {
	// Index is that of the newest log entry.
	Index    uint64
	Entries  []Entry
	Sessions []Session
}

// Dump returns a copy of all keys and sessions as they are at one moment.
func (s *Server) Dump() Dump {
	st := s.state.Load()
	d := Dump{Index: st.applied}
	walk(st.trees[treeKV].Root(), "", func(e *Entry) {
		c := *e
		c.Value = slices.Clone(e.Value)
		d.Entries = append(d.Entries, c)
	})
	for _, sess := range sessionsUnder(st.trees[treeSessions], nil, nil) {
		d.Sessions = append(d.Sessions, *sess)
	}
	return d
}

// Snapshot is what a server held at some time. It costs nothing.
type Snapshot struct{ state *state }

// Snapshot returns what the server holds now, without lock-delays and the agents' own records.
func (s *Server) Snapshot() Snapshot { return Snapshot{s.state.Load()} }

// Restore brings back the contents of a snapshot of this server as Consul does it. Keys have their
// old values, ModifyIndex and LockIndex again, sessions that ended since are back with their full
// time and those created since are gone; blocking queries return, with what they had found last;
// lock-delays are forgotten. The next write gets an index above all earlier ones.
func (s *Server) Restore(snapshot Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return ErrClosed
	}
	next := *snapshot.state
	for t := range trees {
		// Not the same nodes: a tree closes the channels of its watchers once.
		txn := iradix.New().Txn()
		next.trees[t].Root().Walk(func(k []byte, v any) bool {
			txn.Insert(k, v)
			return false
		})
		next.trees[t] = txn.Commit()
	}
	s.raftIndex = max(s.raftIndex, next.applied) + 1
	next.applied, next.abandoned = s.raftIndex, make(chan struct{})
	clear(s.lockDelays)
	old := s.state.Swap(&next)
	s.stopTimersLocked()
	close(old.abandoned)
	if s.leadership.Load().applies() {
		s.resetTimersLocked()
		s.syncAgentsLocked()
	}
	return nil
}

// Reset is a Consul that lost its data and came back: no keys, no sessions, none of the agent's
// registrations, and an index that starts from the beginning. Blocking queries return. It has a
// leader, also when there was none before.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return
	}
	old := s.state.Load()
	s.stopTimersLocked()
	s.forgetAgentsLocked()
	s.bootLocked()
	close(old.abandoned)
}
