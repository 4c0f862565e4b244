package devconsul

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
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
	walk(st.kv.Root(), "", func(e *Entry) {
		c := *e
		c.Value = slices.Clone(e.Value)
		d.Entries = append(d.Entries, c)
	})
	for _, sess := range sessionsUnder(st.sessions, nil, nil) {
		d.Sessions = append(d.Sessions, *sess)
	}
	return d
}

// snapshotData is the form of a snapshot: all tables and their indexes. Lock-delays are not in it,
// nor are the agent's own records.
type snapshotData struct {
	Format     string
	Index      uint64
	Tables     tableIndexes
	KV         []*Entry
	Tombstones []*tombstone
	Sessions   []*Session
	Nodes      []*node
	Services   []*service
	Checks     []*check
	SvcIndex   map[string]uint64
}

const snapshotFormat = "devconsul/1"

// Snapshot returns all data, for Restore of this or of another server.
func (s *Server) Snapshot() []byte {
	st := s.state.Load()
	d := snapshotData{
		Format: snapshotFormat, Index: st.applied, Tables: st.idx,
		KV:         under[Entry](st.kv.Root(), nil, nil),
		Tombstones: under[tombstone](st.tombstones.Root(), nil, nil),
		Sessions:   under[Session](st.sessions.Root(), nil, nil),
		Nodes:      under[node](st.nodes.Root(), nil, nil),
		Services:   under[service](st.services.Root(), nil, nil),
		Checks:     under[check](st.checks.Root(), nil, nil),
		SvcIndex:   make(map[string]uint64),
	}
	st.svcIndex.Root().Walk(func(k []byte, v any) bool {
		d.SvcIndex[string(k)] = v.(uint64)
		return false
	})
	buf, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("devconsul: encoding a snapshot: %v", err))
	}
	return buf
}

// Restore brings back the contents of a snapshot as Consul does it. Keys have their old values,
// ModifyIndex and LockIndex again, sessions that ended since are back with their full time and
// those created since are gone; blocking queries return, with what they had found last; lock-delays
// are forgotten. The next write gets an index above all earlier ones and above the snapshot's.
func (s *Server) Restore(snapshot []byte) error {
	var d snapshotData
	if err := json.Unmarshal(snapshot, &d); err != nil {
		return fmt.Errorf("devconsul: restore: not a snapshot: %w", err)
	}
	if d.Format != snapshotFormat {
		return fmt.Errorf(
			"devconsul: restore: format %q, want %q: make it with Snapshot of this version",
			d.Format, snapshotFormat)
	}
	if slices.Contains(d.KV, nil) || slices.Contains(d.Tombstones, nil) ||
		slices.Contains(d.Sessions, nil) ||
		slices.Contains(d.Nodes, nil) || slices.Contains(d.Services, nil) ||
		slices.Contains(d.Checks, nil) {
		return fmt.Errorf("devconsul: restore: not a snapshot: an entry is null")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return ErrClosed
	}
	w := &writeTxn{state: *newState(), idx: d.Index, now: time.Now()}
	for _, e := range d.KV {
		w.open(treeKV).Insert(treeKey(e.Key), e)
		w.moveHold(nil, e)
	}
	for _, t := range d.Tombstones {
		w.open(treeTombstones).Insert(treeKey(t.Key), t)
	}
	for _, sess := range d.Sessions {
		w.putSession(sess)
	}
	for _, n := range d.Nodes {
		w.open(treeNodes).Insert(treeKey(fold(n.Node)), n)
	}
	for _, svc := range d.Services {
		w.open(treeServices).Insert(treeKey(fold(svc.Node), fold(svc.ID)), svc)
	}
	for _, c := range d.Checks {
		w.open(treeChecks).Insert(treeKey(fold(c.Node), fold(c.CheckID)), c)
	}
	for k, idx := range d.SvcIndex {
		w.open(treeSvcIndex).Insert([]byte(k), idx)
	}
	w.state.idx = d.Tables
	next, _ := w.commit()
	s.raftIndex = max(s.raftIndex, d.Index) + 1
	next.applied = s.raftIndex
	clear(s.lockDelays)
	s.replaceLocked(next)
	if s.leadership.Load().applies() {
		s.resetTimersLocked()
		s.syncAgentsLocked()
	}
	return nil
}

// replaceLocked puts another state in place of everything and lets all blocking queries return.
func (s *Server) replaceLocked(next *state) {
	old := s.state.Swap(next)
	s.stopTimersLocked()
	close(old.abandoned)
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
