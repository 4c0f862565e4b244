package onconsul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// A token may lose its right to write keys while its session can still be renewed. A leader that
// stops then cannot say so, and a candidate that leaves keeps its place: nobody would lead for as
// long as its process lives. So a connection ends its session itself when that has lasted for a
// lease, unless it leads elsewhere.

// errHeldInVain ends a session that holds what nobody uses and what cannot be given up.
var errHeldInVain = fmt.Errorf("%w: it was destroyed here: Consul's rules deny the writes that "+
	"end its leaderships and candidacies, which are over; give the token key:write below the "+
	"prefix", store.ErrSessionGone)

// noteGivingUp takes in what came of giving up the leadership or the candidacy that b has in a
// session. Its duty has ended.
func (c *Conn) noteGivingUp(b *backend, session string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch since := c.denied[b]; {
	case err == nil:
		delete(c.denied, b)
	case errors.Is(err, store.ErrDenied) && since.IsZero() && c.liveSession == session:
		c.denied[b] = time.Now()
	}
}

// leadersStill counts the leaders of the session, but for those that are denied to give that up:
// they have stopped.
func (c *Conn) leadersStill() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.leading {
		if c.denied[b].IsZero() {
			n++
		}
	}
	return n
}

// isHeldInVain tells whether the rules have denied for a lease that something of the session is
// given up, and it leads nowhere else.
func (c *Conn) isHeldInVain(now messages.Session) bool {
	if c.leadersStill() > 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, since := range c.denied {
		if time.Since(since) >= now.Lease.TTL {
			return true
		}
	}
	return false
}

// destroy ends the session.
func (c *Conn) destroy(ctx context.Context, now messages.Session) bool {
	err := c.store.DestroySession(ctx, now.ID)
	if err != nil {
		c.log.Warn("session-not-destroyed", "session", now.ID, "err", err, "then",
			"it is tried again with the next renewal")
	}
	return err == nil
}
