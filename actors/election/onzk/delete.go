package onzk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// deletion is an order to delete an election, as it stands in the election's node. A ZooKeeper that
// is restored from before it has lost the order. The election may have a leader again then, also if
// somebody has given another order since.
type deletion struct {
	incarnation int64 // creation zxid of the election's node
	written     int64 // zxid of its last change
	at          int64 // its time: a single server goes on with the zxids of a restore
}

// stands tells whether the order is in the election's node with that data and stat.
func (d deletion) stands(data []byte, stat *zk.Stat) bool {
	_, deleted := parseEnded(data)
	return deleted && d == deletionOf(stat)
}

func deletionOf(stat *zk.Stat) deletion {
	return deletion{incarnation: stat.Czxid, written: stat.Mzxid, at: stat.Mtime}
}

// errOrderLost is that an order no longer stands in the election that it was given for.
var errOrderLost = errors.New("the order to delete the election has gone")

func (b *backend) Delete(ctx context.Context) error {
	ctx, cancel := b.conn.whileOpen(ctx)
	defer cancel()
	pause := risingPause(time.Second)
	for incarnation := int64(0); ; b.conn.sleep(ctx, pause.NextBackOff()) {
		order, err := b.orderDeletion(ctx, incarnation)
		if err != nil || order.incarnation == 0 {
			return err
		}
		incarnation = order.incarnation
		if err := b.awaitVacancy(ctx, order); err != nil {
			return err
		}
		if err := b.waitLockDelay(ctx, order); err != nil {
			return err
		}
		err = b.retry(ctx, "delete", func() error { return b.deleteAll(ctx, order) })
		if !errors.Is(err, errOrderLost) {
			return err
		}
	}
}

// orderDeletion writes the order to delete the election made at the zxid incarnation, if nobody has
// yet. 0 stands for the election of now. It returns the order; the zero value: that election is
// gone.
func (b *backend) orderDeletion(ctx context.Context, incarnation int64) (order deletion,
	err error) {
	err = b.retry(ctx, "delete", func() error {
		if incarnation == 0 {
			if err := b.catchUp(); err != nil {
				return err
			}
		}
		for wrote := false; ; wrote = true {
			data, stat, err := b.conn.zk.Get(b.base)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case err != nil:
				return err
			case incarnation != 0 && stat.Czxid != incarnation:
				return nil // another Delete was faster, and this is the next election of the name
			}
			incarnation = stat.Czxid
			if wrote {
				if order = deletionOf(stat); !order.stands(data, stat) {
					order = deletion{}
					return errChanged // lost already
				}
				return nil
			}
			if err := b.checkOwn(); err != nil {
				return err
			}
			err = b.stateWriter(ctx, stateDeleted, incarnation)()
			if errors.Is(err, election.ErrDeleted) {
				return nil // another Delete was faster
			}
			if err != nil {
				return err
			}
		}
	})
	if err != nil {
		return deletion{}, err // what was given up may still write to order
	}
	return order, nil
}

// awaitVacancy waits until nobody leads the election, or until the order no longer stands: the
// leader of another one of the name is not waited for.
func (b *backend) awaitVacancy(ctx context.Context, order deletion) error {
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
			!(is.exists && order.stands(is.data, &is.stat)) {
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
func (b *backend) waitLockDelay(ctx context.Context, order deletion) error {
	root := b.conn.follow(b.base)
	defer b.conn.unfollow(root)
	before := b.conn.rereadNow(root)
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
			return r.number > before && r.err == nil &&
				!(r.exists && order.stands(r.data, &r.stat))
		})
		cancel()
		switch {
		case err == nil:
			return nil // another was quicker, or the order is lost
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

// deleteAll removes the election with all its nodes while the order stands, under which nobody can
// join or lead any more. It returns errOrderLost if it does not, and nil if the election is gone. A
// stranger may make nodes as it goes on, so it pauses before it looks again.
func (b *backend) deleteAll(ctx context.Context, order deletion) error {
	pause := risingPause(time.Second)
	for ; ctx.Err() == nil; b.conn.sleep(ctx, pause.NextBackOff()) {
		data, stat, err := b.conn.zk.Get(b.base)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != order.incarnation:
			return nil
		case err != nil:
			return err
		case !order.stands(data, stat):
			return errOrderLost
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
			// The conditions refuse a late request, which would hit a new election of this
			// name, or this one when a restore has taken the order.
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
