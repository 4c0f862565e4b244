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
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/go-zookeeper/zk"
)

// readers is how many candidates' records are read at one time.
const readers = 8

func (b *backend) Candidates(ctx context.Context) ([]election.Candidate, error) {
	ctx, cancel := b.conn.whileOpen(ctx)
	defer cancel()
	result := make(chan []election.Candidate, 1)
	err := b.conn.call(ctx, func() error {
		all, err := b.candidates(ctx)
		result <- all
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("candidates of %s: %w", b.name, b.conn.orClosed(err))
	}
	return <-result, nil
}

func (b *backend) candidates(ctx context.Context) ([]election.Candidate, error) {
	children, err := b.childrenNow()
	if err != nil {
		return nil, err
	}
	places := queue(children)
	found := make([]election.Candidate, len(places))
	failed := make([]error, readers)
	var work sync.WaitGroup
	for r := range readers {
		read := func() error {
			for i := r; i < len(places) && ctx.Err() == nil; i += readers {
				data, stat, err := b.conn.zk.Get(b.path(places[i].node))
				switch {
				case errors.Is(err, zk.ErrNoNode): // left meanwhile
				case err != nil:
					return err
				case ephemeral(stat): // or nobody's
					_ = json.Unmarshal(data, &found[i])
				}
			}
			return nil
		}
		work.Go(func() {
			contained.Run(b.conn.log, "the list of candidates", read, func(err error) {
				failed[r] = err
			})
		})
	}
	work.Wait()
	return slices.DeleteFunc(found, func(c election.Candidate) bool {
		return c.ID == ""
	}), errors.Join(failed...)
}

func (b *backend) HandOver(ctx context.Context, id string, from uint64) error {
	ctx, cancel := b.conn.whileOpen(ctx)
	defer cancel()
	err := b.conn.call(ctx, func() error { return b.handOver(ctx, id, from) })
	if err != nil {
		return fmt.Errorf("hand-over of %s: %w", b.name, b.conn.orClosed(err))
	}
	return nil
}

// handOver asks one leader of one election, those of now, to make way. The order is bound to that
// leader's node and term, because nodes of the next leader, and of the next election of the name,
// may have the same versions. It writes nothing once ctx has ended: what it has read may be old by
// then, and name a leader that nobody meant.
func (b *backend) handOver(ctx context.Context, id string, from uint64) error {
	if err := b.catchUp(); err != nil {
		return err
	}
	if err := b.checkPlace(); err != nil {
		return err
	}
	incarnation := int64(0) // of the election that the order is for: the first that it finds
	for range attempts {
		root, rootStat, err := b.conn.zk.Get(b.base)
		if errors.Is(err, zk.ErrNoNode) ||
			err == nil && incarnation != 0 && rootStat.Czxid != incarnation {
			return election.ErrNoLeader
		}
		if err != nil {
			return err
		}
		incarnation = rootStat.Czxid
		// The term before the leader's node: a term that is read later may be the next leader's.
		_, term, err := b.term()
		if errors.Is(err, election.ErrDeleted) {
			return election.ErrNoLeader
		}
		if err != nil {
			return err
		}
		record, stat, err := b.conn.zk.Get(b.path(leaderNode)) // all of it: it is written anew
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !ephemeral(stat):
			return election.ErrNoLeader
		case err != nil:
			return err
		}
		leader := parseLeader(record, stat)
		switch {
		case leader.ID == id:
			return nil
		case from != 0 && uint64(stat.Czxid) != from:
			return election.ErrNoLeader
		}
		from = uint64(stat.Czxid) // who comes after that one is not meant
		children, _, err := b.conn.zk.Children(b.base)
		if err != nil {
			return err
		}
		places := queue(children)
		i := slices.IndexFunc(places, func(p queueEntry) bool { return p.guid == guidOf(id) })
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
		order := encode(yieldRecord{To: id, Name: c.Name,
			HoldBack: b.conn.cfg.HoldBack.String()})
		ops := append(b.checkIdentity(root),
			&zk.CheckVersionRequest{Path: b.path(termNode), Version: term.Version},
			&zk.SetDataRequest{Path: b.path(leaderNode), Data: encode(leader),
				Version: stat.Version},
			// Write the same data to wake the candidate. Otherwise only the first of the queue
			// looks when the leader goes.
			&zk.SetDataRequest{Path: chosen, Data: data, Version: at.Version})
		if slices.Contains(children, yieldNode) {
			if err := b.checkField(yieldNode); err != nil {
				return err
			}
			ops = append(ops, &zk.SetDataRequest{Path: b.path(yieldNode), Data: order, Version: -1})
		} else {
			ops = append(ops, &zk.CreateRequest{Path: b.path(yieldNode), Data: order,
				Acl: b.conn.cfg.ACL})
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err = b.conn.zk.Multi(ops...)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) &&
			!errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		if err := b.ensureIdentity(root, rootStat); err != nil {
			return err
		}
	}
	return errChanged
}

// isPassing tells whether the same request may succeed later.
func isPassing(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, errChanged) ||
		errors.Is(err, errNoCredentials)
}

// retry calls f until it succeeds, fails for good, or ctx ends, which is one of whileOpen.
func (b *backend) retry(ctx context.Context, what string, f func() error) error {
	for {
		err := b.conn.call(ctx, f)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !isPassing(err):
			return fmt.Errorf("%s %s: %w", what, b.name, b.conn.orClosed(err))
		}
		b.conn.sleep(ctx, 100*time.Millisecond)
	}
}

func (b *backend) End(ctx context.Context) error {
	ctx, cancel := b.conn.whileOpen(ctx)
	defer cancel()
	return b.retry(ctx, "end", b.stateWriter(ctx, stateEnded, 0))
}

// stateWriter returns a function that writes state to the election made at the zxid incarnation. 0
// stands for the election of now, or one that it makes. The function may be called again. It does
// not end an election that is being deleted. It writes nothing once ctx has ended, as handOver.
func (b *backend) stateWriter(ctx context.Context, state string,
	incarnation int64) func() error {
	return func() error {
		if incarnation == 0 {
			if err := b.catchUp(); err != nil {
				return err
			}
		}
		if err := b.checkPlace(); err != nil {
			return err
		}
		for range attempts {
			data, stat, err := b.conn.zk.Get(b.base)
			if ended := ctx.Err(); ended != nil {
				return ended
			}
			if errors.Is(err, zk.ErrNoNode) && incarnation == 0 {
				if err := b.createElection(); err != nil {
					return err
				}
				continue
			}
			if errors.Is(err, zk.ErrNoNode) ||
				err == nil && incarnation != 0 && stat.Czxid != incarnation {
				return fmt.Errorf("%w meanwhile; if there is another one of that name, it goes on",
					election.ErrDeleted)
			}
			if err != nil {
				return err
			}
			incarnation = stat.Czxid
			if again, err := b.identify(data, stat); err != nil {
				return err
			} else if again {
				continue
			}
			if ended, deleted := parseEnded(data); deleted || ended && state == stateEnded {
				return nil
			}
			_, err = b.conn.zk.Multi(append(b.checkIdentity(data), &zk.SetDataRequest{Path: b.base,
				Data: withState(data, state), Version: stat.Version})...)
			if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if err := b.ensureIdentity(data, stat); err != nil {
				return err
			}
		}
		return errChanged
	}
}
