package onzk

import (
	"context"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

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

// Queue is the order of the candidates among the children.
func Queue(children []string) []string {
	var nodes []string
	for _, p := range queue(children) {
		nodes = append(nodes, p.node)
	}
	return nodes
}

// LockDelayOf is how long the others wait after a leader that left this behind.
func LockDelayOf(term string, otherwise time.Duration) time.Duration {
	return lockDelayOf([]byte(term), otherwise)
}

// GivingUp is the transaction by which a participant gives the leadership up, and its place in the
// queue if it leaves.
func GivingUp(b election.Backend, leaves bool) ([]any, error) {
	mine := b.(*backend)
	return mine.leaveOps(mine.candidacy(), leaves, false)
}

// SendTake sends the take of a candidate by what is there now, in whatever session there is, as the
// client does with a request that has waited for a connection.
func SendTake(b election.Backend) error {
	mine := b.(*backend)
	_, root, err := mine.conn.zk.Get(mine.base)
	if err != nil {
		return err
	}
	_, term, err := mine.term()
	if err == nil {
		_, err = mine.sendTake(mine.candidacy(), root.Version, term.Version, false)
	}
	return err
}

// GiveUp gives the session up.
func (c *Conn) GiveUp() { c.dialer.giveUp(c.session(), "was given up by a test") }

// ViewWithoutLeader returns what a view of now does that says that the candidate does not lead.
func ViewWithoutLeader(b election.Backend) (published func()) {
	mine := b.(*backend)
	read := mine.conn.readings.Add(1)
	return func() { mine.leadsNoMore(read) }
}

// Leaders is how many candidates are known to lead over the connection.
func (c *Conn) Leaders() int { return c.leaders.Get() }

// Lost says how a session of that timeout, last heard of at start, has ended.
func Lost(timeout time.Duration, start, now time.Time) string {
	l := lease{timeout: timeout, granted: timeout, start: start}
	return l.lost(now)
}

// Spawn runs f as one of the connection's own goroutines.
func (c *Conn) Spawn(f func()) { c.spawn("a test's loop", f) }

// Request makes a request.
func (c *Conn) Request(ctx context.Context, f func() error) error { return c.callAnyway(ctx, f) }

// ResolvingDialer resolves names by lookup, and connects to their addresses by dial.
func ResolvingDialer(lookup func(ctx context.Context, host string) ([]string, error),
	dial zk.Dialer) zk.Dialer {
	d, _ := ResolvingDialerUntil(lookup, dial)
	return d
}

// ResolvingDialerUntil is a ResolvingDialer with what ends its lookups.
func ResolvingDialerUntil(lookup func(ctx context.Context, host string) ([]string, error),
	dial zk.Dialer) (_ zk.Dialer, end func()) {
	r := newResolvingDialer()
	r.lookup, r.dial = lookup, dial
	return r.Dial, r.end
}

// Renew says whether the lease is renewed from now on.
func (d *Dialer) Renew(on bool) { d.setProving(on) }

// Session is the session of the dialer's client; 0: there is none.
func (d *Dialer) Session() int64 {
	session, _ := d.current()
	return session
}
