package onzk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// readers is how many candidates' records are read at one time.
const readers = 8

func (b *backend) Candidates(ctx context.Context) ([]election.Candidate, error) {
	result := make(chan []election.Candidate, 1)
	err := b.conn.call(ctx, func() error {
		all, err := b.candidates(ctx)
		result <- all
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("candidates of %s: %w", b.name, err)
	}
	return <-result, nil
}

func (b *backend) candidates(ctx context.Context) ([]election.Candidate, error) {
	children, _, err := b.conn.zk.Children(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	places := queue(children)
	found := make([]election.Candidate, len(places))
	failed := make([]error, readers)
	var work sync.WaitGroup
	for r := range readers {
		work.Go(func() {
			for i := r; i < len(places) && ctx.Err() == nil; i += readers {
				data, stat, err := b.conn.zk.Get(b.path(places[i].node))
				switch {
				case errors.Is(err, zk.ErrNoNode): // left meanwhile
				case err != nil:
					failed[r] = err
					return
				case ephemeral(stat): // or nobody's
					_ = json.Unmarshal(data, &found[i])
				}
			}
		})
	}
	work.Wait()
	return slices.DeleteFunc(found, func(c election.Candidate) bool {
		return c.ID == ""
	}), errors.Join(failed...)
}

func (b *backend) HandOver(ctx context.Context, id string) error {
	err := b.conn.call(ctx, func() error { return b.handOver(id) })
	if err != nil {
		return fmt.Errorf("hand-over of %s: %w", b.name, err)
	}
	return nil
}

func (b *backend) handOver(id string) error {
	for range attempts {
		leader, stat, _, err := b.leads(candidacy{})
		switch {
		case err != nil:
			return err
		case stat == nil:
			return election.ErrNoLeader
		case leader.ID == id:
			return nil
		}
		children, _, err := b.conn.zk.Children(b.base)
		if err != nil {
			return err
		}
		places := queue(children)
		i := slices.IndexFunc(places, func(p place) bool { return p.guid == guidOf(id) })
		if i < 0 {
			return fmt.Errorf("%w: nobody has the id %s", election.ErrNoCandidate, id)
		}
		chosen := b.path(places[i].node)
		data, at, err := b.conn.zk.Get(chosen)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if !ephemeral(at) {
			return fmt.Errorf("%w: nobody has the id %s", election.ErrNoCandidate, id)
		}
		var c election.Candidate
		_ = json.Unmarshal(data, &c)
		leader.Yield = id
		order := encode(yieldRecord{To: id, Name: c.Name})
		ops := []any{
			&zk.SetDataRequest{Path: b.path(leaderNode), Data: encode(leader),
				Version: stat.Version},
			// As it was: to wake it, for it is not the one that looks when the leader goes.
			&zk.SetDataRequest{Path: chosen, Data: data, Version: at.Version},
		}
		if slices.Contains(children, yieldNode) {
			ops = append(ops, &zk.SetDataRequest{Path: b.path(yieldNode), Data: order, Version: -1})
		} else {
			ops = append(ops, &zk.CreateRequest{Path: b.path(yieldNode), Data: order,
				Acl: b.conn.cfg.ACL})
		}
		_, err = b.conn.zk.Multi(ops...)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) &&
			!errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return errChanged
}

// passing tells whether an error may be gone the next time.
func passing(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, errChanged)
}

// persist repeats f over passing errors until ctx ends.
func (b *backend) persist(ctx context.Context, what string, f func() error) error {
	for {
		err := b.conn.call(ctx, f)
		switch {
		case err == nil:
			return nil
		case b.conn.ctx.Err() != nil:
			return fmt.Errorf("%s %s: %w", what, b.name, election.ErrClosed)
		case ctx.Err() != nil || !passing(err):
			return fmt.Errorf("%s %s: %w", what, b.name, err)
		}
		b.conn.sleep(ctx, 100*time.Millisecond)
	}
}

func (b *backend) End(ctx context.Context) error {
	return b.persist(ctx, "end", b.ender(stateEnded, 0))
}

// ender returns what writes what is to become of the election that was made at that zxid; 0: of the
// first one that it finds, or makes. It may be called again. What is being deleted is not ended.
func (b *backend) ender(state string, born int64) func() error {
	return func() error {
		for range attempts {
			data, stat, err := b.conn.zk.Get(b.base)
			if errors.Is(err, zk.ErrNoNode) && born == 0 {
				if err := b.create(); err != nil {
					return err
				}
				continue
			}
			if errors.Is(err, zk.ErrNoNode) || err == nil && born != 0 && stat.Czxid != born {
				return fmt.Errorf("%w meanwhile; if there is another one of that name, it goes on",
					election.ErrDeleted)
			}
			if err != nil {
				return err
			}
			born = stat.Czxid
			if ended, deleted := parseFate(data); deleted || ended && state == stateEnded {
				return nil
			}
			_, err = b.conn.zk.Multi(append(b.this(data), &zk.SetDataRequest{Path: b.base,
				Data: become(data, state), Version: stat.Version})...)
			if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if err := b.identify(data, stat); err != nil {
				return err
			}
		}
		return errChanged
	}
}

func (b *backend) Delete(ctx context.Context) error {
	born := int64(0)
	err := b.persist(ctx, "delete", func() error {
		_, stat, err := b.conn.zk.Get(b.base)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			born = 0
			return nil
		case err != nil:
			return err
		}
		born = stat.Czxid
		err = b.ender(stateDeleted, born)()
		if errors.Is(err, election.ErrDeleted) {
			// another was quicker; what there is now is not to be deleted, and clear will see that
			return nil
		}
		return err
	})
	if err != nil || born == 0 {
		return err
	}
	leader := b.conn.follow(b.path(leaderNode))
	defer b.conn.unfollow(leader)
	for {
		now, err := leader.settled(ctx, b.conn.readingsNow(leader))
		if err != nil {
			return fmt.Errorf("delete %s: %w: it cannot be told whether somebody leads; the election stays ended, delete it again",
				b.name, err)
		}
		leads := func(r reading) bool { return r.exists && ephemeral(&r.stat) }
		if !leads(now) {
			break
		}
		if _, err := leader.state.Reader().Wait(ctx, func(r reading) bool {
			return !leads(r)
		}); err != nil {
			return fmt.Errorf("delete %s: %w: %s still leads; the election stays ended, delete it again when it has stopped",
				b.name, err, parseLeader(now.data, &now.stat).Name)
		}
	}
	if err := b.outlast(ctx, born); err != nil {
		return err
	}
	return b.persist(ctx, "delete", func() error { return b.clear(ctx, born) })
}

// outlast waits for the lock-delay of a last leader that went without giving the leadership up: it
// may not have heard of that, and with the node "term" goes what would hold up the first leader of
// the next election of this name.
func (b *backend) outlast(ctx context.Context, born int64) error {
	root := b.conn.follow(b.base)
	defer b.conn.unfollow(root)
	for {
		var left time.Duration
		err := b.persist(ctx, "delete", func() error {
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
			return r.number > 0 && (!r.exists || r.stat.Czxid != born)
		})
		cancel()
		switch {
		case err == nil:
			return nil // another was quicker
		case ctx.Err() != nil:
			return fmt.Errorf("delete %s: %w: its last leader was lost and may be at it still; the election stays ended, delete it again",
				b.name, ctx.Err())
		}
	}
}

// readingsNow has the cell read anew and returns the number that the new reading will be above.
func (c *Conn) readingsNow(n *cell) uint64 {
	number := c.readings.Load()
	c.refresh(n.path)
	return number
}

// clear removes the election that was made at the zxid, with all that is in it. Nobody can join or
// lead any more.
func (b *backend) clear(ctx context.Context, born int64) error {
	for ctx.Err() == nil {
		data, stat, err := b.conn.zk.Get(b.base)
		if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Czxid != born {
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.identify(data, stat); err != nil {
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
			// The conditions are for a request that waits for a connection, while there may be a
			// new election of this name.
			_, err := b.conn.zk.Multi(append(b.this(data), &zk.CheckVersionRequest{Path: b.base,
				Version: stat.Version}, &zk.DeleteRequest{Path: b.path(child), Version: -1})...)
			if errors.Is(err, zk.ErrNotEmpty) {
				err = b.uproot(b.path(child))
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
		}
		if _, err := b.conn.zk.Multi(last...); err != nil && !errors.Is(err, zk.ErrNoNode) &&
			!errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return ctx.Err()
}
