package election

import "time"

// role returns the role of this participant at the moment.
func (m *machine) role(now time.Time) Role {
	switch {
	case m.over:
		return Out
	case m.follower && m.views > 0 && m.view.Err == nil:
		return Observing
	case m.leading:
		return Leading
	case m.draining:
		return Draining
	case m.session == "", !m.leaseHolds(now), !m.roleKnown && !m.current():
		return Uncertain
	case m.busy == opTake && (!m.roleKnown || m.view.Mine && m.newest.Role == Uncertain):
		return Uncertain // the answer will tell
	}
	return Following
}

// status returns the newest status, and whether it says anything new.
func (m *machine) status(now time.Time) (Status, bool) {
	was := m.newest
	if m.over {
		return m.final, true
	}
	s := Status{Role: m.role(now), Self: m.self, Reason: m.reason}
	switch {
	case s.Role == Leading, s.Role == Draining:
		s.Leader, s.Token, s.Session = m.self, m.token, m.session
		s.Until = m.contact.Lease.Start.Add(m.contact.Lease.TTL - m.marginOf())
	case s.Role == Uncertain, m.view.Mine, m.view.Err != nil:
		// A leader record of its own that it does not lead by counts as nobody's.
	default:
		s.Leader, s.Token = m.view.Leader, m.view.Token
	}
	switch {
	case !m.roleKnown && s.Role == Uncertain:
		if s.Reason = m.lastFailure; s.Reason == "" && m.view.Err != nil {
			s.Reason = m.view.Err.Error() // of a follower, who does nothing that could fail
		}
		if s.What = Waiting; s.Reason == "" || was.Reason != "" {
			return s, false // an outage is told once
		}
		return s, true
	case !m.roleKnown:
		s.What, m.roleKnown = Initial, true
	case s.Role != was.Role:
		if s.What = RoleChanged; s.Role == Uncertain && s.Reason == "" {
			if s.Reason = m.leaseOver(); m.view.Err != nil {
				s.Reason = m.view.Err.Error() // all that a follower has, and more than a time
			}
		}
	case s.Leader.ID == "" && was.Leader.ID != "":
		s.What = NoLeader
	case s.Leader.ID != was.Leader.ID, s.Token != was.Token:
		s.What = NewLeader
	case s.Until.After(was.Until):
		s.What = Extended
	default:
		return s, false
	}
	m.reason = ""
	return s, true
}

// leaseOver says that the lease is over, and since when the store has been silent.
func (m *machine) leaseOver() string {
	return "the lease has run out: the store was last heard of at " +
		m.contact.Lease.Start.Format("15:04:05.000")
}
