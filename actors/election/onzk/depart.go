package onzk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// Depart gives up, for a candidate that died, the leadership that its session has (as its Contact
// named it), so that the next one may have it at once, and its place in the queue, also if it only
// waited there. All duties must have ended. What else hangs on the session goes when it expires.
// Cfg is as for Connect. It tries until ctx ends, and tells whether that session led. The error is
// election.ErrInvalid, or why ZooKeeper could not do it.
func Depart(ctx context.Context, cfg Config, name, session string) (led bool, err error) {
	c, err := Connect(cfg)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := checkName(name); err != nil {
		return false, err
	}
	b := newBackend(c, name)
	for {
		var tried bool // gave it up, though the answer may have been lost
		err := c.call(ctx, func() (err error) {
			tried, err = b.depart(session)
			return err
		})
		if err == nil {
			return led || tried, nil
		}
		if ctx.Err() != nil {
			// tried is not to be read: it may be on its way
			return led, fmt.Errorf("departure from %s: %w", name, ctx.Err())
		}
		led = led || tried
		if !passing(err) {
			return led, fmt.Errorf("departure from %s: %w", name, err)
		}
		c.sleep(ctx, 100*time.Millisecond)
	}
}

// depart makes one attempt; led: it had the leadership to give up.
func (b *backend) depart(session string) (led bool, err error) {
	if led, err := b.abdicate(session); led || err != nil {
		return led, err
	}
	// Those behind it would wait until its session has expired.
	if err := b.vacate(session); err != nil {
		return false, err
	}
	return b.abdicate(session) // a last Take of it may have come in between; no other will
}

// vacate removes the session's candidates.
func (b *backend) vacate(session string) error {
	children, _, err := b.conn.zk.Children(b.base)
	for _, p := range queue(children) {
		exists, stat, err := b.conn.zk.Exists(b.path(p.node))
		if err == nil && exists && sessionName(stat.EphemeralOwner) == session {
			err = b.conn.zk.Delete(b.path(p.node), -1)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// abdicate gives the leadership up, and the leader's place in the queue.
func (b *backend) abdicate(session string) (led bool, err error) {
	data, leader, err := b.conn.zk.Get(b.path(leaderNode))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	case sessionName(leader.EphemeralOwner) != session:
		return false, nil
	}
	_, term, err := b.term()
	if errors.Is(err, election.ErrDeleted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ops := []any{
		&zk.SetDataRequest{Path: b.path(termNode), Data: nil, Version: term.Version},
		&zk.DeleteRequest{Path: b.path(leaderNode), Version: leader.Version},
	}
	children, _, err := b.conn.zk.Children(b.base)
	if err != nil {
		return false, err
	}
	for _, p := range queue(children) {
		if p.guid == guidOf(parseLeader(data, leader).ID) {
			// or the others would wait for it to lead again
			ops = append(ops, &zk.DeleteRequest{Path: b.path(p.node), Version: -1})
		}
	}
	_, err = b.conn.zk.Multi(ops...)
	switch {
	case err == nil, errors.Is(err, zk.ErrConnectionClosed):
		return true, err
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return false, errChanged
	}
	return false, err
}
