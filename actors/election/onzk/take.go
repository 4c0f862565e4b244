package onzk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

// readLeader reads the leader's node. stat is nil if there is none, or if it is not ephemeral.
// mine: it belongs to this candidate, in the session that it joined with, or in that of now by a
// late take, see mayStand. The term, which was read before, says so too: a stranger may keep the
// leader's data to himself, or have written over it.
func (b *backend) readLeader(me candidacy, holder []byte, term *zk.Stat) (stat *zk.Stat,
	mine bool, err error) {
	data, stat, err := b.getLeader()
	if stat == nil || err != nil || !ephemeral(stat) {
		return nil, false, err
	}
	mine = stat.Czxid == term.Mzxid && me.ID != "" && holderOf(holder) == me.ID &&
		(stat.EphemeralOwner == me.session || stat.EphemeralOwner == b.conn.session())
	return stat, mine || me.isLeader(parseLeader(data, stat), stat), nil
}

// getLeader reads the leader's node. stat is nil if there is none. There is no data if a stranger
// keeps that to himself.
func (b *backend) getLeader() (data []byte, stat *zk.Stat, err error) {
	data, stat, err = b.conn.zk.Get(b.path(leaderNode))
	if errors.Is(err, zk.ErrNoAuth) {
		exists := false
		if exists, stat, err = b.conn.zk.Exists(b.path(leaderNode)); err == nil && !exists {
			err = zk.ErrNoNode
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	return data, stat, err
}

// isLeader tells whether the record is this candidacy's. Several candidates may share a session,
// and an id may have had several sessions, so both are compared. A node that it has made itself is
// its own whatever a stranger has written into it.
func (me candidacy) isLeader(r leaderRecord, stat *zk.Stat) bool {
	return me.session != 0 && stat.EphemeralOwner == me.session &&
		(r.ID == me.ID || me.token != 0 && stat.Czxid == me.token)
}

func parseLeader(data []byte, stat *zk.Stat) (r leaderRecord) {
	if json.Unmarshal(data, &r) != nil || r.ID == "" {
		r = leaderRecord{Candidate: election.Candidate{ID: fmt.Sprintf("zxid-%x", stat.Czxid),
			Name: "(a record that is none of ours)"}}
	}
	return r
}

func (b *backend) Take(ctx context.Context) (token uint64, retry time.Duration, err error) {
	var t uint64
	var r time.Duration
	// The operation may outlive this call. So it must not write to the results of the call.
	done := make(chan struct{})
	err = b.operate(ctx, "take the leadership", func() (err error) {
		defer close(done)
		t, r, err = b.take()
		b.update(func(now *candidacy) {
			now.takeUnknown = isPassing(err) || now.takeUnknown && err != nil
			now.madeWay = now.madeWay && t == 0
		})
		// Who asks has no duty: a leader whose lease was over leads by this answer, or not at all.
		b.conn.setLeading(b, err == nil && t != 0)
		return err
	})
	select {
	case <-done:
	default:
		return 0, 0, err
	}
	b.denied(toLead, err)
	if err == nil && t != 0 {
		b.succeeded()
	}
	return t, r, err
}

// termWrite is where the operations of a take write the term.
const termWrite = 3

func (b *backend) take() (token uint64, retry time.Duration, err error) {
	me := b.candidacy()
	if me.node == "" || b.conn.session() != me.session {
		return 0, 0, election.ErrSessionLost
	}
	if p := b.prepare(nil); p != nil && p.incarnation == me.incarnation {
		answers, err := b.sendTake(me, p.root, p.term, p.yields)
		if err == nil {
			token, retry = b.taken(me, answers)
			return token, retry, nil
		}
		if !wasRefused(err) {
			return 0, 0, err
		}
		// Something has changed since. Everything is read.
	}
	for range attempts {
		data, root, err := b.conn.zk.Get(b.base)
		switch {
		case b.conn.session() != me.session:
			return 0, 0, election.ErrSessionLost
		case errors.Is(err, zk.ErrNoNode), err == nil && root.Czxid != me.incarnation:
			return 0, 0, election.ErrDeleted
		case err != nil:
			return 0, 0, err
		case endedError(data) != nil:
			return 0, 0, endedError(data)
		}
		// Read the term before the leader's node. In the other order the term may be that of a
		// leader who is still there, and its lock-delay would be counted from now on.
		holder, term, err := b.term()
		if err != nil {
			return 0, 0, err
		}
		if term.NumChildren > 0 {
			if err := b.checkField(termNode); err != nil {
				return 0, 0, err
			}
		}
		leader, mine, err := b.readLeader(me, holder, term)
		switch {
		case err != nil:
			return 0, 0, err
		case mine && leader.EphemeralOwner == me.session:
			b.update(func(now *candidacy) {
				if now.node == me.node {
					now.token = leader.Czxid
				}
			})
			return uint64(leader.Czxid), 0, nil
		case leader != nil:
			return 0, 0, nil
		}
		if wait := b.lockDelay(holder, term); wait > 0 {
			return 0, wait, nil
		}
		yields, _, err := b.conn.zk.Exists(b.path(yieldNode))
		if err != nil {
			return 0, 0, err
		}
		answers, err := b.sendTake(me, root.Version, term.Version, yields)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			if err := b.removeStrangersLeader(me, term); err != nil {
				return 0, 0, err
			}
			continue
		case errors.Is(err, zk.ErrBadVersion):
			continue
		case errors.Is(err, zk.ErrNotEmpty): // the order, by a stranger
			if err := b.deleteChildren(b.path(yieldNode)); err != nil {
				return 0, 0, err
			}
			continue
		case errors.Is(err, zk.ErrNoNode):
			if len(answers) > 1 && answers[1].Error != nil {
				// The candidate's node is gone. Either its session has ended, or a stranger removed
				// it and rejoin creates another.
				return 0, b.conn.timeout() / 3, nil
			}
			continue
		case err != nil:
			return 0, 0, err
		}
		token, retry = b.taken(me, answers)
		return token, retry, nil
	}
	return 0, 0, errChanged
}

// sendTake takes the leadership by the versions of the election's node and of the term. yields:
// there is an order to hand over, which is carried out by that.
func (b *backend) sendTake(me candidacy, root, term int32, yields bool) ([]zk.MultiResponse,
	error) {
	ops := []any{
		&zk.CheckVersionRequest{Path: b.base, Version: root},
		// The candidate's node is deleted with its session, and by Leave. So a late request fails
		// here, or what it takes is given up by Leave (see there).
		&zk.CheckVersionRequest{Path: b.path(me.node), Version: -1},
		&zk.CreateRequest{Path: b.path(leaderNode),
			Data: encode(leaderRecord{Candidate: me.Candidate}), Acl: b.conn.cfg.ACL,
			Flags: zk.FlagEphemeral},
		&zk.SetDataRequest{Path: b.path(termNode), Data: b.conn.term(me.ID), Version: term},
	}
	if yields {
		ops = append(ops, &zk.DeleteRequest{Path: b.path(yieldNode), Version: -1})
	}
	return b.conn.zk.Multi(ops...)
}

// wasRefused tells whether a condition of a take did not hold.
func wasRefused(err error) bool {
	return errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion) ||
		errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode)
}

// taken records a take that has succeeded. The leader's node is now this candidacy's: the
// transaction has checked the candidate's own node, which goes with its session. Only if that was
// given up it may have been sent over another one, which Leave finds. The token is the
// creation zxid of the leader's node. It is the zxid of the transaction, which the term has as that
// of its last change.
func (b *backend) taken(me candidacy, answers []zk.MultiResponse) (token uint64,
	retry time.Duration) {
	written := answers[termWrite].Stat
	if b.conn.session() != me.session {
		return 0, b.conn.timeout() / 10 // it has ended since
	}
	b.update(func(now *candidacy) {
		if now.node == me.node {
			now.taken, now.termVersion, now.token = true, written.Version, written.Mzxid
		}
	})
	return uint64(written.Mzxid), 0
}

// removeStrangersLeader removes a leader node that a stranger created and that no session's end
// removes. The condition on the term refuses a late request after somebody has led. The condition
// on the candidate's node refuses it in another election of the name.
func (b *backend) removeStrangersLeader(me candidacy, term *zk.Stat) error {
	exists, stat, err := b.conn.zk.Exists(b.path(leaderNode))
	if err == nil && (!exists || ephemeral(stat)) {
		return nil
	}
	if err == nil {
		err = b.deleteChildren(b.path(leaderNode))
	}
	if err == nil {
		_, err = b.conn.zk.Multi(&zk.CheckVersionRequest{Path: b.path(termNode),
			Version: term.Version}, &zk.CheckVersionRequest{Path: b.path(me.node), Version: -1},
			&zk.DeleteRequest{Path: b.path(leaderNode), Version: stat.Version})
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) ||
		errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// deleteChildren removes the children of a node that should have none. The error is
// election.ErrInvalid if the node is that of another election.
func (b *backend) deleteChildren(path string) error {
	children, err := b.childrenOf(path)
	if err != nil {
		return err
	}
	if areElections(children) {
		return b.foreign(path)
	}
	for _, child := range children {
		if err := b.deleteChildren(path + "/" + child); err != nil {
			return err
		}
		if err := b.conn.zk.Delete(path+"/"+child, -1); err != nil &&
			!errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// term reads who led last, and the version of the term's node. If a stranger has removed the node,
// term makes it again, as if the last leader had not given the leadership up. It makes none in what
// is something else's node.
func (b *backend) term() (holder []byte, stat *zk.Stat, err error) {
	for range attempts {
		data, stat, err := b.conn.zk.Get(b.path(termNode))
		if !errors.Is(err, zk.ErrNoNode) {
			return data, stat, err
		}
		root, _, err := b.conn.zk.Get(b.base)
		if err == nil {
			err = b.checkElection(root)
		}
		if err == nil {
			_, err = b.conn.zk.Create(b.path(termNode), []byte("?"), 0, b.conn.cfg.ACL)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil, election.ErrDeleted
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return nil, nil, err
		}
	}
	return nil, nil, errChanged
}

// lockDelay returns how much longer to wait for a leader that did not release. The wait begins when
// that leader is first seen to have gone. The zxid of the term's last change is that leader's
// token.
func (b *backend) lockDelay(holder []byte, term *zk.Stat) time.Duration {
	delay := lockDelayOf(holder, b.conn.lockDelay())
	if delay <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.vacantSince.IsZero() || b.lastToken != term.Mzxid {
		b.vacantSince, b.lastToken = time.Now(), term.Mzxid
	}
	b.delayedUntil = b.vacantSince.Add(delay)
	return time.Until(b.delayedUntil)
}

// lockDelay is that of this connection's own leaders.
func (c *Conn) lockDelay() time.Duration {
	if c.cfg.LockDelay == 0 {
		return c.timeout()
	}
	return max(c.cfg.LockDelay, 0)
}

// term is what a leader of this connection leaves behind.
func (c *Conn) term(id string) []byte {
	return encode(termRecord{ID: id, LockDelay: c.lockDelay().String()})
}
