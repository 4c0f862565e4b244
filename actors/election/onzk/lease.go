package onzk

import (
	"fmt"
	"time"
)

// lease knows since when, at the latest, ZooKeeper counts a session's timeout.
//
// An answer alone does not tell: a server of an ensemble answers by itself that it has heard of a
// session, and reports it to the ensemble's leader, who alone expires sessions, with its answer to
// the leader's next ping, half a tick later. If the server dies or is cut off meanwhile, the leader
// does not know of the contact; and a server that is cut off answers pings for many ticks. So a
// contact counts once a later transaction has been committed: that one went the same way to the
// leader, behind the report, if at least half a tick lies between the two. ZooKeeper's shortest
// session is two ticks, so a quarter of the timeout is always enough.
//
// It has no clock and no lock.
type lease struct {
	timeout time.Duration
	start   time.Time
	// resumed is the handshake of the present connection, answered: the ensemble's leader was asked
	// then whether the session exists, and that counts as contact. sent is zero when the session
	// was opened by it.
	resumed contact
	waiting []contact // that do not count yet, the oldest first
}

// contact is a request that was answered.
type contact struct{ sent, answered time.Time }

// opened begins a new session.
func (l *lease) opened(timeout time.Duration, c contact) {
	*l = lease{timeout: timeout, start: c.sent}
}

// again notes that the session goes on over a new connection.
func (l *lease) again(timeout time.Duration, c contact) {
	l.timeout = timeout
	l.resumed, l.waiting = c, nil
}

// committed notes a transaction of this connection that succeeded.
func (l *lease) committed(c contact) {
	counts := func(earlier contact, distance time.Duration) {
		if !earlier.sent.IsZero() && c.sent.Sub(earlier.answered) >= distance &&
			earlier.sent.After(l.start) {
			l.start = earlier.sent
		}
	}
	counts(l.resumed, 0)
	keep := l.waiting[:0]
	for _, w := range l.waiting {
		if counts(w, l.timeout/4); w.sent.After(l.start) {
			keep = append(keep, w)
		}
	}
	l.waiting = append(keep, c)
}

// lost says how the session ended that ZooKeeper does not know any more at that moment: it never
// expires before its time.
func (l *lease) lost(now time.Time) string {
	if now.Sub(l.start) < l.timeout {
		return "was ended before its time: somebody closed it, or ZooKeeper has lost it"
	}
	return fmt.Sprintf("expired: its timeout is %v", l.timeout)
}
