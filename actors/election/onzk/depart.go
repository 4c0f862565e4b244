package onzk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// Depart resigns for a candidate whose process has died. session is the one of its Contact. Depart
// deletes the leader's node if that session has it, and the session's candidates. So the next
// candidate leads at once. All duties must have ended. What else belongs to the session is deleted
// when it expires. cfg is as for Connect. Depart tries until ctx ends, also while no server's name
// can be resolved. It tells whether the session led. The error is election.ErrInvalid, or why
// ZooKeeper could not do it.
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
		var tried bool // the leadership was given up, though the answer may be lost
		err := c.call(ctx, func() (err error) {
			tried, err = b.depart(session)
			return err
		})
		if err == nil {
			return led || tried, nil
		}
		if ctx.Err() != nil {
			// tried must not be read: the attempt may still be running.
			return led, fmt.Errorf("departure from %s: %w", name, ctx.Err())
		}
		led = led || tried
		if !isPassing(err) {
			return led, fmt.Errorf("departure from %s: %w", name, err)
		}
		c.sleep(ctx, 100*time.Millisecond)
	}
}

// depart makes one attempt. led: the session had the leadership.
func (b *backend) depart(session string) (led bool, err error) {
	if led, err = b.resignLeader(session); err != nil {
		return led, err
	}
	// Without this the candidates behind one of its own would wait until its session has expired.
	if err := b.removeCandidates(session); led || err != nil {
		return led, err
	}
	// A late Take of the session may have won in between. No further one can.
	return b.resignLeader(session)
}

// removeCandidates removes the session's candidates.
func (b *backend) removeCandidates(session string) error {
	children, _, err := b.conn.zk.Children(b.base)
	for _, p := range queue(children) {
		owned, err := b.owned(p, session)
		if owned {
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

// owned tells whether a candidate's node belongs to the session.
func (b *backend) owned(p queueEntry, session string) (bool, error) {
	exists, stat, err := b.conn.zk.Exists(b.path(p.node))
	return err == nil && exists && sessionName(stat.EphemeralOwner) == session, err
}

// resignLeader gives the leadership up if the session has it. It removes the candidate that the
// leader's record names, if that is the session's too: a stranger may have written the record.
func (b *backend) resignLeader(session string) (led bool, err error) {
	if err := b.checkPlace(); err != nil {
		return false, err
	}
	root, stat, err := b.conn.zk.Get(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if again, err := b.identify(root, stat); again && err == nil {
		return false, errChanged
	} else if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return false, err
	}
	// The term before the leader's node: a term that is read later may be the next leader's, whose
	// node has the same version.
	_, term, err := b.term()
	if errors.Is(err, election.ErrDeleted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	data, leader, err := b.getLeader()
	switch {
	case err != nil:
		return false, err
	case leader == nil, sessionName(leader.EphemeralOwner) != session:
		return false, nil
	}
	ops := append(b.checkIdentity(root),
		&zk.SetDataRequest{Path: b.path(termNode), Data: nil, Version: term.Version},
		&zk.DeleteRequest{Path: b.path(leaderNode), Version: leader.Version})
	children, _, err := b.conn.zk.Children(b.base)
	if err != nil {
		return false, err
	}
	named := guidOf(parseLeader(data, leader).ID)
	for _, p := range queue(children) {
		if p.guid != named {
			continue
		}
		owned, err := b.owned(p, session)
		if err != nil {
			return false, err
		}
		if owned {
			// Without this the others would wait for it to lead again.
			ops = append(ops, &zk.DeleteRequest{Path: b.path(p.node), Version: -1})
		}
	}
	_, err = b.conn.zk.Multi(ops...)
	switch {
	case err == nil, errors.Is(err, zk.ErrConnectionClosed):
		return true, err
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		if err := b.ensureIdentity(root, stat); err != nil {
			return false, err
		}
		return false, errChanged
	}
	return false, err
}
