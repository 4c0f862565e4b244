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
	if err == nil {
		b.succeeded()
	}
	return err
}

func (b *backend) Leave(ctx context.Context) error {
	err := b.operate(ctx, "leave", b.leave)
	if err == nil {
		return nil
	}
	// It holds up those behind it until it is gone.
	b.conn.left(1)
	b.conn.spawn(func() {
		defer b.conn.left(-1)
		for b.conn.ctx.Err() == nil {
			b.conn.sleep(b.conn.ctx, b.conn.timeout()/20)
			if b.operate(b.conn.ctx, "leave", b.leave) == nil {
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
	if me.node != "" && b.conn.session() == me.session {
		if err := b.remove(me, true); err != nil {
			return err
		}
	}
	if me.unsure && b.conn.session() != 0 {
		if err := b.sweep(me); err != nil {
			return err
		}
		// A create that was on its way over an earlier connection may still arrive, in theory: the
		// server reads what it has got, and then that the connection is closed.
		b.conn.spawn(func() {
			b.conn.sleep(b.conn.ctx, b.conn.timeout())
			if b.conn.ctx.Err() == nil {
				_ = b.conn.call(b.conn.ctx, func() error { return b.sweep(me) })
			}
		})
	}
	b.update(func(now *candidacy) { now.node, now.unsure = "", false })
	return nil
}

// sweep removes whatever is there of a candidate that has left, in whatever session of ours.
func (b *backend) sweep(me candidacy) error {
	if _, err := b.conn.zk.Sync(b.base); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	children, _, err := b.conn.zk.Children(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
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

// remove gives up the leadership if it is this candidate's, and its place in the queue if it is to
// leave, in one transaction.
func (b *backend) remove(me candidacy, place bool) error {
	for range attempts {
		ops, err := b.removal(me, place)
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

// removal is that transaction. The term's version makes it fail when somebody else has led since,
// however late it arrives; the candidate's own node when that was in another election of the name,
// whose nodes may have the same versions.
func (b *backend) removal(me candidacy, place bool) (ops []any, err error) {
	_, term, err := b.term()
	if err != nil {
		return nil, err
	}
	_, leader, mine, err := b.leads(me)
	if err != nil {
		return nil, err
	}
	stands := false
	if place || mine {
		if stands, _, err = b.conn.zk.Exists(b.path(me.node)); err != nil {
			return nil, err
		}
	}
	switch {
	case stands && place:
		ops = append(ops, &zk.DeleteRequest{Path: b.path(me.node), Version: -1})
	case stands:
		ops = append(ops, &zk.CheckVersionRequest{Path: b.path(me.node), Version: -1})
	}
	if mine {
		ops = append(ops,
			&zk.SetDataRequest{Path: b.path(termNode), Data: nil, Version: term.Version},
			&zk.DeleteRequest{Path: b.path(leaderNode), Version: leader.Version})
	} else if stands {
		// A Take whose answer was lost may have won since, unseen by this server, and nobody else
		// would remove what it made. Without the candidate's node no other wins.
		ops = append(ops, &zk.CheckVersionRequest{Path: b.path(termNode), Version: term.Version})
	}
	return ops, nil
}
