package onzk

import "time"

// Credentials are the session and its password: whoever has them can end it.
func (c *Conn) Credentials() (session int64, password []byte) {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	return c.dialer.session, c.dialer.password
}

// Lease is the bookkeeping of the lease, for tests with times of their own.
type Lease struct{ l lease }

func (l *Lease) Opened(timeout time.Duration, sent time.Time) {
	l.l.opened(timeout, contact{sent: sent, answered: sent})
}

func (l *Lease) Resumed(sent, answered time.Time) { l.ResumedFor(l.l.granted, sent, answered) }

func (l *Lease) ResumedFor(granted time.Duration, sent, answered time.Time) {
	l.l.reconnected(granted, contact{sent: sent, answered: answered})
}

func (l *Lease) Committed(sent, answered time.Time) {
	l.l.committed(contact{sent: sent, answered: answered})
}

func (l *Lease) Start() time.Time { return l.l.start }

func (l *Lease) Timeout() time.Duration { return l.l.timeout }

// Lost says how a session of that timeout, last heard of at start, has ended.
func Lost(timeout time.Duration, start, now time.Time) string {
	l := lease{timeout: timeout, granted: timeout, start: start}
	return l.lost(now)
}

// Queue is the order of the candidates among the children.
func Queue(children []string) []string {
	var nodes []string
	for _, p := range queue(children) {
		nodes = append(nodes, p.node)
	}
	return nodes
}
