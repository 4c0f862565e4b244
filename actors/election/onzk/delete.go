package onzk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

func (b *backend) Delete(ctx context.Context) error {
	ctx, cancel := b.conn.whileOpen(ctx)
	defer cancel()
	incarnation := int64(0) // of the election that the order is for: the first that it finds
	err := b.retry(ctx, "delete", func() error {
		_, stat, err := b.conn.zk.Get(b.base)
		if errors.Is(err, zk.ErrNoNode) && incarnation == 0 {
			// This server may be behind, and then it is an election that goes on.
			if _, err = b.conn.zk.Sync(b.base); err == nil || errors.Is(err, zk.ErrNoNode) {
				_, stat, err = b.conn.zk.Get(b.base)
			}
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case err != nil:
			return err
		case incarnation != 0 && stat.Czxid != incarnation:
			return nil // another Delete was faster, and this is the next election of the name
		}
		incarnation = stat.Czxid
		if err := b.checkOwn(); err != nil {
			return err
		}
		err = b.stateWriter(ctx, stateDeleted, incarnation)()
		if errors.Is(err, election.ErrDeleted) {
			// Another Delete was faster. deleteAll leaves an election alone that was made since.
			return nil
		}
		return err
	})
	if err != nil || incarnation == 0 {
		return err
	}
	if err := b.awaitVacancy(ctx, incarnation); err != nil {
		return err
	}
	if err := b.waitLockDelay(ctx, incarnation); err != nil {
		return err
	}
	return b.retry(ctx, "delete", func() error { return b.deleteAll(ctx, incarnation) })
}

// awaitVacancy waits until nobody leads the election made at the zxid incarnation, or until that
// election is gone: the leader of another one of the name is not waited for.
func (b *backend) awaitVacancy(ctx context.Context, incarnation int64) error {
	root, leader := b.conn.subscribe(b.base), b.conn.subscribe(b.path(leaderNode))
	defer b.conn.unfollow(root.node)
	defer b.conn.unfollow(leader.node)
	before := b.conn.rereadNow(root.node, leader.node)
	for {
		root.take()
		leader.take()
		is, led := root.now, leader.now
		known := led.number > before && (led.err == nil || errors.Is(led.err, zk.ErrNoAuth))
		leads := led.exists && ephemeral(&led.stat)
		if known && !leads || is.number > before && is.err == nil &&
			(!is.exists || is.stat.Czxid != incarnation) {
			return nil
		}
		select {
		case <-root.changed():
		case <-leader.changed():
		case <-ctx.Done():
			err := b.conn.orClosed(ctx.Err())
			if !known {
				return fmt.Errorf("delete %s: %w: it cannot be told whether somebody leads; the "+
					"election stays ended, delete it again", b.name, err)
			}
			return fmt.Errorf("delete %s: %w: %s still leads; the election stays ended, delete it "+
				"again when it has stopped", b.name, err, parseLeader(led.data, &led.stat).Name)
		}
	}
}

// waitLockDelay waits for the lock-delay of a last leader that did not release: it may not know yet
// that it has lost the leadership. Delete removes the term node, and without it nothing would hold
// back the first leader of the next election of this name.
func (b *backend) waitLockDelay(ctx context.Context, incarnation int64) error {
	root := b.conn.follow(b.base)
	defer b.conn.unfollow(root)
	for {
		var left time.Duration
		err := b.retry(ctx, "delete", func() error {
			data, stat, err := b.conn.zk.Get(b.path(termNode))
			if errors.Is(err, zk.ErrNoNode) { // a stranger removed it, or another Delete is at work
				data, stat, err = []byte("?"), &zk.Stat{}, nil
			}
			if err == nil {
				left = b.lockDelay(data, stat)
			}
			return err
		})
		if err != nil || left <= 0 {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, left)
		_, err = root.state.Reader().Wait(wait, func(r reading) bool {
			return r.number > 0 && (!r.exists || r.stat.Czxid != incarnation)
		})
		cancel()
		switch {
		case err == nil:
			return nil // another was quicker
		case ctx.Err() != nil:
			return fmt.Errorf("delete %s: %w: its last leader was lost and may be at it still; "+
				"the election stays ended, delete it again",
				b.name, b.conn.orClosed(ctx.Err()))
		}
	}
}

// rereadNow reads the nodes again. It returns a number: the new readings have larger ones.
func (c *Conn) rereadNow(nodes ...*sharedWatch) uint64 {
	number := c.readings.Load()
	for _, n := range nodes {
		c.refresh(n.path)
	}
	return number
}

// deleteAll removes the election made at the zxid incarnation with all its nodes. Nobody can join
// or lead any more. A stranger may make nodes as it goes on, so it pauses before it looks again.
func (b *backend) deleteAll(ctx context.Context, incarnation int64) error {
	pause := risingPause(time.Second)
	for ; ctx.Err() == nil; b.conn.sleep(ctx, pause.NextBackOff()) {
		data, stat, err := b.conn.zk.Get(b.base)
		if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Czxid != incarnation {
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(b.ensureIdentity(data, stat), b.checkOwn()); err != nil {
			return err
		}
		children, _, err := b.conn.zk.Children(b.base)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		last := []any{&zk.DeleteRequest{Path: b.base, Version: stat.Version}}
		for _, child := range children {
			if child == identity(data) {
				last = append([]any{&zk.DeleteRequest{Path: b.path(child), Version: -1}}, last...)
				continue
			}
			// The conditions refuse a late request, which would hit a new election of this name.
			_, err := b.conn.zk.Multi(append(b.checkIdentity(data),
				&zk.CheckVersionRequest{Path: b.base,
					Version: stat.Version}, &zk.DeleteRequest{Path: b.path(child), Version: -1})...)
			if errors.Is(err, zk.ErrNotEmpty) {
				err = b.deleteChildren(b.path(child))
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
		}
		switch _, err := b.conn.zk.Multi(last...); {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNotEmpty) && len(last) > 1:
			if err := b.deleteChildren(b.path(identity(data))); err != nil {
				return err
			}
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNotEmpty) &&
			!errors.Is(err, zk.ErrBadVersion):
			return err
		}
	}
	return ctx.Err()
}
