package onzk

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

func (b *backend) Release(ctx context.Context) error {
	err := b.operate(ctx, "give the leadership up", func() error {
		return b.remove(b.candidacy(), false)
	})
	b.denied(toLeave, err)
	if err == nil {
		b.conn.setLeading(b, false)
		b.succeeded()
	}
	return err
}

func (b *backend) Leave(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, b.conn.timeout()/3)
	defer cancel()
	err := b.operate(soon, "leave", b.leave)
	b.denied(toLeave, err)
	if err == nil {
		return nil
	}
	// The candidate's node holds up those behind it until it is gone. So go on in the background.
	b.conn.countPendingLeave(1)
	until := b.conn.leaving
	b.conn.goOn("leave", func() {
		defer b.conn.countPendingLeave(-1)
		for until.Err() == nil {
			b.conn.sleep(until, b.conn.timeout()/20)
			err := b.operate(until, "leave", b.leave)
			b.denied(toLeave, err)
			if err == nil {
				return
			}
		}
	})
	return fmt.Errorf("%w: %w", election.ErrPending, err)
}

func (b *backend) leave() error {
	b.update(func(me *candidacy) { me.left = true })
	me := b.candidacy()
	if me.ID == "" {
		return nil
	}
	stands, err := b.mayStand(me)
	if stands && err == nil {
		err = b.remove(me, true)
	}
	if err != nil {
		return err
	}
	b.conn.setLeading(b, false) // it has given the leadership up, or its session is gone
	if me.createUnknown && b.conn.session() != 0 {
		if err := b.removeStrayNodes(me); err != nil {
			return err
		}
		// A create sent over an earlier connection may still arrive, in theory: the server reads
		// what it has received before it notices that the connection is closed.
		until := b.conn.leaving
		b.conn.goOn("a second look for a late join", func() {
			b.conn.sleep(until, b.conn.timeout())
			if until.Err() == nil {
				_ = b.conn.call(until, func() error { return b.removeStrayNodes(me) })
			}
		})
	}
	b.update(func(now *candidacy) { now.node, now.createUnknown = "", false })
	b.denied(toLook, nil)
	b.denied(toLead, nil)
	return nil
}

// mayStand tells whether a candidate may still have nodes, which go with its session. Those of one
// that was given up are there for as long as ZooKeeper waits for it. A take that waited for a
// connection may win by them meanwhile: over the next session, which goes on. This needs no rights.
func (b *backend) mayStand(me candidacy) (bool, error) {
	switch session := b.conn.session(); {
	case me.node == "":
		return false, nil
	case session == me.session:
		return true, nil
	case !b.conn.dialer.gaveUp(me.session):
		return false, nil
	}
	return b.hasNodes(me)
}

// hasNodes tells whether a candidate has its node, or the leader's. Its own first: without it, it
// leads no more later on.
func (b *backend) hasNodes(me candidacy) (bool, error) {
	for _, node := range []string{me.node, leaderNode} {
		exists, stat, err := b.conn.zk.Exists(b.path(node))
		if err != nil {
			return false, err
		}
		if owner := stat.EphemeralOwner; exists &&
			(owner == me.session || owner == b.conn.session()) {
			return true, nil
		}
	}
	return false, nil
}

// removeStrayNodes removes all nodes of a candidate that has left, in all sessions of this
// connection.
func (b *backend) removeStrayNodes(me candidacy) error {
	children, err := b.childrenNow()
	if err != nil {
		return err
	}
	for _, p := range queue(children) {
		if p.guid != guidOf(me.ID) {
			continue
		}
		if err := b.conn.zk.Delete(b.path(p.node), -1); err != nil &&
			!errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// remove gives the leadership up if this candidate has it. If place is true it also removes its
// place in the queue, in the same transaction.
func (b *backend) remove(me candidacy, place bool) error {
	defer b.update(func(now *candidacy) {
		if now.node == me.node {
			now.taken = false
		}
	})
	for try := range attempts {
		ops, err := b.leaveOps(me, place, try == 0)
		if errors.Is(err, election.ErrDeleted) || err == nil && len(ops) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = b.conn.zk.Multi(ops...)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return errChanged
}

// leaveOps returns that transaction. The condition on the term refuses it if somebody else has led
// since, however late it arrives. The condition on the candidate's node refuses it in another
// election of the name, whose nodes may have the same versions. Where the election's node is
// another program's by now, there is nothing of the candidate's.
//
// What a leader's own take has written is not read again, unless a try has shown that it was
// written since.
func (b *backend) leaveOps(me candidacy, place, unread bool) (ops []any, err error) {
	if me.taken && unread {
		return b.opsOf(me, true, place, true, me.termVersion, 0), nil
	}
	holder, term, err := b.term()
	if errors.Is(err, election.ErrInvalid) || errors.Is(err, zk.ErrNoAuth) {
		if has, failed := b.hasNodes(me); !has && failed == nil {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	leader, mine, err := b.readLeader(me, holder, term)
	if err != nil {
		return nil, err
	}
	stands := false
	if place || mine {
		if stands, _, err = b.conn.zk.Exists(b.path(me.node)); err != nil {
			return nil, err
		}
	}
	version := int32(0)
	if mine {
		version = leader.Version
	}
	return b.opsOf(me, mine, place, stands, term.Version, version), nil
}

// opsOf are the operations for one that leads or not, with a node or not, by the versions of the
// term and of the leader's node.
func (b *backend) opsOf(me candidacy, mine, place, stands bool, term, leader int32) (ops []any) {
	switch {
	case stands && place:
		ops = append(ops, &zk.DeleteRequest{Path: b.path(me.node), Version: -1})
	case stands:
		ops = append(ops, &zk.CheckVersionRequest{Path: b.path(me.node), Version: -1})
	}
	if mine {
		ops = append(ops,
			&zk.SetDataRequest{Path: b.path(termNode), Data: nil, Version: term},
			&zk.DeleteRequest{Path: b.path(leaderNode), Version: leader})
	} else if stands {
		// A Take whose answer was lost may have won since, unseen by this server, and nobody else
		// would remove its leader node. The condition finds that. Once the candidate's node is
		// deleted, no further Take can win.
		ops = append(ops, &zk.CheckVersionRequest{Path: b.path(termNode), Version: term})
	}
	return ops
}
