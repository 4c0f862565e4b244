package devconsul

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	behaviorRelease = "release"
	behaviorDelete  = "delete"

	serfCheckID = "serfHealth"

	// sessionTTLMax is the largest session TTL.
	sessionTTLMax = 24 * time.Hour
	// ttlFactor is how many TTLs a session lives on unless renewed.
	ttlFactor = 2
)

// sessionTimer ends a session. A timer that was reset just as it fired sees by deadline that it is
// to do nothing.
type sessionTimer struct {
	timer    *time.Timer
	deadline time.Time
}

// UnmarshalJSON takes lock-delay as a duration's text, as nanoseconds, or, below 1000, as seconds.
func (s *Session) UnmarshalJSON(data []byte) error {
	type Alias Session
	aux := struct {
		LockDelay any
		*Alias
	}{Alias: (*Alias)(s)}
	if err := json.Unmarshal(data, &aux); err != nil {
		return err
	}
	if aux.LockDelay == nil {
		return nil
	}
	var d time.Duration
	switch v := aux.LockDelay.(type) {
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return err
		}
	case float64:
		d = time.Duration(v)
	}
	if d < 1000 {
		d *= time.Second
	}
	s.LockDelay = d
	return nil
}

func (s *Server) sessionCreate(_ http.ResponseWriter, r *http.Request) (any, error) {
	sess := Session{
		Node:       s.agentOf(r).name,
		NodeChecks: []string{serfCheckID},
		Checks:     []string{serfCheckID},
		LockDelay:  15 * time.Second,
		Behavior:   behaviorRelease,
	}
	if r.ContentLength > 0 {
		if err := decode(r.Body, &sess); err != nil {
			return nil, err
		}
	}
	// Checks is the old name of NodeChecks. An empty one means no checks at all; one that still
	// holds the default gives way to NodeChecks; an empty NodeChecks switches both off.
	switch {
	case len(sess.Checks) == 0:
		sess.NodeChecks, sess.Checks = []string{}, nil
	case len(sess.Checks) == 1 && sess.Checks[0] == serfCheckID:
		sess.Checks = nil
	case len(sess.NodeChecks) == 0:
		sess.Checks = nil
	}
	if err := s.checkDatacenter(r.URL.Query()); err != nil {
		return nil, err
	}
	if err := s.validSession(&sess); err != nil {
		return nil, err
	}
	sess.ID = s.cfg.NewID()

	if !s.leadership.Load().applies() {
		return nil, errNoLeader
	}
	err := s.applyLocked(func(w *writeTxn) error {
		err := w.createSession(sess)
		w.log(CommitOp{Verb: "session-create", Session: sess.ID}, err == nil, err)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply failed: %w", err)
	}
	s.resetTimerLocked(&sess)
	return struct{ ID string }{sess.ID}, nil
}

func (s *Server) validSession(sess *Session) error {
	if sess.Node == "" {
		return fmt.Errorf("Must provide Node")
	}
	switch sess.Behavior {
	case "":
		sess.Behavior = behaviorRelease
	case behaviorRelease, behaviorDelete:
	default:
		return fmt.Errorf("Invalid Behavior setting '%s'", sess.Behavior)
	}
	if sess.TTL == "" {
		return nil
	}
	ttl, err := time.ParseDuration(sess.TTL)
	if err != nil {
		return fmt.Errorf("Session TTL '%s' invalid: %v", sess.TTL, err)
	}
	if ttl != 0 && (ttl < s.cfg.SessionTTLMin || ttl > sessionTTLMax) {
		return fmt.Errorf("Invalid Session TTL '%d', must be between [%v=%v]", ttl,
			s.cfg.SessionTTLMin, sessionTTLMax)
	}
	return nil
}

func (s *Server) sessionDestroy(_ http.ResponseWriter, r *http.Request, id string) (any, error) {
	if err := s.checkDatacenter(r.URL.Query()); err != nil {
		return nil, err
	}
	if !s.leadership.Load().applies() {
		return nil, errNoLeader
	}
	if findSession(s.state.Load().trees[treeSessions].Root(), id) == nil {
		return true, nil // a session that is gone needs no log entry
	}
	if err := s.destroyLocked(id); err != nil {
		return nil, fmt.Errorf("apply failed: %w", err)
	}
	return true, nil
}

func (s *Server) destroyLocked(id string) error {
	return s.applyLocked(func(w *writeTxn) error {
		w.log(CommitOp{Verb: "session-destroy", Session: id}, true, nil)
		w.endSession(id)
		return nil
	})
}

func (s *Server) sessionRenew(_ http.ResponseWriter, r *http.Request, id string) (any, error) {
	q, err := s.parseQuery(r)
	if err != nil {
		return nil, err
	}
	if q.datacenter != nil {
		return nil, q.datacenter
	}
	lead, st := s.leadership.Load(), s.state.Load()
	if lead.isLost() {
		return nil, errNoLeader
	}
	if lead.isBehind() {
		st = lead.behind
	}
	sess := findSession(st.trees[treeSessions].Root(), id)
	if sess == nil {
		return nil, notFound("Session id '%s' not found", id)
	}
	if !lead.isBehind() { // else all timers start anew when it has caught up
		s.resetTimerLocked(sess)
	}
	return []*Session{sess}, nil
}

// resetTimerLocked gives a session its full time anew.
func (s *Server) resetTimerLocked(sess *Session) {
	ttl, err := time.ParseDuration(sess.TTL)
	if err != nil || ttl == 0 {
		return
	}
	id := sess.ID
	if t := s.timers[id]; t != nil {
		t.deadline = time.Now().Add(ttlFactor * ttl)
		t.timer.Reset(ttlFactor * ttl)
		return
	}
	t := &sessionTimer{deadline: time.Now().Add(ttlFactor * ttl)}
	t.timer = time.AfterFunc(ttlFactor*ttl, func() { s.expire(id, t) })
	s.timers[id] = t
}

func (s *Server) expire(id string, t *sessionTimer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timers[id] != t || time.Now().Before(t.deadline) {
		return
	}
	delete(s.timers, id)
	if err := s.destroyLocked(id); err != nil {
		// The leader was lost or the server ended. Both have stopped the timer, and the next leader
		// starts it anew.
		s.cfg.Logger.Debug("session-not-expired", "session", id, "error", err)
	}
}

// resetTimersLocked is what a new leader does: every session counts from now.
func (s *Server) resetTimersLocked() {
	s.stopTimersLocked()
	for _, sess := range sessionsUnder(s.state.Load().trees[treeSessions], nil, nil) {
		s.resetTimerLocked(sess)
	}
}

func (s *Server) sessionInfo(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.readSessions(w, r, func(st *state, ws *watchSet) []*Session {
		ch, v, ok := st.trees[treeSessions].Root().GetWatch(treeKey(fold(id)))
		ws.add(ch)
		if !ok {
			return []*Session{}
		}
		return []*Session{v.(*Session)}
	})
}

func (s *Server) sessionList(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.readSessions(w, r, func(st *state, ws *watchSet) []*Session {
		return sessionsUnder(st.trees[treeSessions], nil, ws)
	})
}

func (s *Server) sessionNode(w http.ResponseWriter, r *http.Request, node string) (any, error) {
	return s.readSessions(w, r, func(st *state, ws *watchSet) []*Session {
		return sessionsUnder(st.trees[treeByNode], treeKey(fold(node)), ws)
	})
}

// readSessions runs a read of the sessions. Its index is always the table's.
func (s *Server) readSessions(w http.ResponseWriter, r *http.Request,
	run func(*state, *watchSet) []*Session) (any, error) {
	var found []*Session
	err := s.readTable(w, r, false, func(st *state, ws *watchSet) (uint64, bool) {
		found = run(st, ws)
		// A session that is not there is waited for; a list may be empty.
		return st.idx.Sessions, len(found) > 0 || !strings.HasPrefix(r.URL.Path, "/v1/session/info/")
	})
	return found, err
}
