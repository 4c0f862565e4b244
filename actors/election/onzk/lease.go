package onzk

import (
	"fmt"
	"time"
)

// lease computes the start of the lease: ZooKeeper counts the session's timeout from then or later.
//
// An answer alone proves no contact. Only the ensemble's leader expires sessions. A follower
// answers a client by itself. It reports the contact to the leader with its answer to the leader's
// next ping, half a tick later. If the follower dies or is cut off before, the leader does not
// learn of the contact. A follower that is cut off goes on to answer clients for many ticks.
//
// So a contact counts once a later transaction has been committed. The transaction goes the same
// way to the leader, behind the report, if at least half a tick lies between the two. ZooKeeper's
// shortest session is two ticks, unless its minSessionTimeout says less, so a quarter of the
// timeout that was granted last is enough.
//
// It has no clock and no lock.
type lease struct {
	// timeout is the shortest that was granted to the session: a server that is deposed grants what
	// the ensemble's leader does not know of.
	timeout time.Duration
	granted time.Duration // last
	start   time.Time
	// handshake is that of the present connection, once answered. The ensemble's leader was asked
	// then whether the session exists, and that counts as contact. sent is zero if this handshake
	// opened the session.
	handshake   contact
	unconfirmed []contact // contacts that do not count yet, the oldest first
}

// contact is a request that was answered.
type contact struct{ sent, answered time.Time }

// opened begins a new session.
func (l *lease) opened(timeout time.Duration, c contact) {
	*l = lease{timeout: timeout, granted: timeout, start: c.sent}
}

// reconnected records that the session goes on over a new connection.
func (l *lease) reconnected(timeout time.Duration, c contact) {
	l.timeout, l.granted = min(l.timeout, timeout), timeout
	l.handshake, l.unconfirmed = c, nil
}

// committed records a transaction of this connection that succeeded.
func (l *lease) committed(c contact) {
	counts := func(earlier contact, distance time.Duration) {
		if !earlier.sent.IsZero() && c.sent.Sub(earlier.answered) >= distance &&
			earlier.sent.After(l.start) {
			l.start = earlier.sent
		}
	}
	counts(l.handshake, 0)
	keep := l.unconfirmed[:0]
	for _, w := range l.unconfirmed {
		if counts(w, l.granted/4); w.sent.After(l.start) {
			keep = append(keep, w)
		}
	}
	l.unconfirmed = append(keep, c)
}

// lost says how the session has ended that ZooKeeper no longer knows at the time now. ZooKeeper
// never expires a session before its timeout.
func (l *lease) lost(now time.Time) string {
	if now.Sub(l.start) < l.granted {
		return "was ended before its time: somebody closed it, or ZooKeeper has lost it"
	}
	return fmt.Sprintf("expired: its timeout is %v", l.granted)
}
