package onconsul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// A token may lose its right to write keys while its session can still be renewed. A leader that
// has stopped cannot say so then, nor can one whose lease had run out lead again, and a candidate
// that leaves keeps its place: nobody would lead for as long as the process lives. So a connection
// gives its session up when that has lasted for a lease and nobody leads in the session.
//
// Every Take that is denied counts, unless a read says that another one leads. One before it may
// have won, unheard of, and no read need ever say so: its answer may be of before.
//
// The denial that makes the lease full decides it, and no look at an earlier one: what is denied
// now has not come to an end meanwhile. From then on no leadership begins in that session, by
// begins. So no duty is at work when the session ends, however late that is.

// errHeldInVain ends a session that holds what nobody uses and what cannot be given up.
var errHeldInVain = fmt.Errorf("%w: it was given up here: nobody leads in it, and Consul's rules "+
	"deny the writes that begin its leaderships, or end them; give the token key:write below the "+
	"prefix", store.ErrSessionGone)

// denial is when a candidate without a duty was denied to write to its record, first and last.
type denial struct{ first, last time.Time }

// begins records that b leads in the session from now on, whatever it was denied before. It tells
// whether it may: not once the session was given up.
func (c *Conn) begins(b *backend, session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.givenUp == session {
		return false
	}
	c.leading[b] = true
	delete(c.denied, b)
	return true
}

// noteEnd takes in what came of ending what b has in the session. Its duty has ended. nil: it has
// nothing there any more. It may give the session up.
func (c *Conn) noteEnd(b *backend, session string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.leading, b)
		delete(c.denied, b)
	}
	if !errors.Is(err, store.ErrDenied) || c.liveSession != session {
		return
	}
	now, d := time.Now(), c.denied[b]
	// It is tried again within some seconds. After a longer rest, as in an outage, it is not known
	// whether it would have been denied all the time.
	if now.Sub(d.last) > max(c.cfg.TTL, 4*store.DefaultCallTimeout) {
		d.first = now
	}
	d.last = now
	c.denied[b] = d
	if now.Sub(d.first) >= c.cfg.Lease && c.leadersStill() == 0 {
		c.givenUp = session
		c.wakeRun()
	}
}

// leadersStill counts the leaders of the session, but for those that are denied to give that up:
// they have stopped. c.mu must be held.
func (c *Conn) leadersStill() (n int) {
	for b := range c.leading {
		if c.denied[b].first.IsZero() {
			n++
		}
	}
	return n
}

// isGivenUp tells whether the session was given up.
func (c *Conn) isGivenUp(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return session != "" && c.givenUp == session
}

// destroyLater has the session ended that was given up. Nobody renews it any more: if no request
// arrives it expires.
func (c *Conn) destroyLater(session string) {
	c.later(func(ctx context.Context) error {
		err := c.store.DestroySession(ctx, session)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("session-not-destroyed", "session", session, "err", err, "then",
				"it is tried again in a few seconds; it expires within twice its ttl")
		}
		return err
	})
	c.cleanUp()
}
