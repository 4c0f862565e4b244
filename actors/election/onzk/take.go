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

// leads reads the leader's node, without a stat if there is none or it is none of a session. mine:
// it is this candidate's, in the session that it joined with.
func (b *backend) leads(me candidacy) (r leaderRecord, stat *zk.Stat, mine bool, err error) {
	data, stat, err := b.conn.zk.Get(b.path(leaderNode))
	if errors.Is(err, zk.ErrNoNode) {
		return r, nil, false, nil
	}
	if err != nil {
		return r, nil, false, err
	}
	if !ephemeral(stat) {
		return r, nil, false, nil
	}
	r = parseLeader(data, stat)
	return r, stat, me.isLeader(r, stat), nil
}

// isLeader: several candidates may share a session, and an id may have had several sessions.
func (me candidacy) isLeader(r leaderRecord, stat *zk.Stat) bool {
	return me.session != 0 && stat.EphemeralOwner == me.session && r.ID == me.ID
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
	// What a caller that has gone would not see must not be written to its variables.
	done := make(chan struct{})
	err = b.operate(ctx, "take the leadership", func() (err error) {
		defer close(done)
		t, r, err = b.take()
		return err
	})
	select {
	case <-done:
	default:
		return 0, 0, err
	}
	if err == nil && t != 0 {
		b.succeeded()
	}
	return t, r, err
}

func (b *backend) take() (token uint64, retry time.Duration, err error) {
	me := b.candidacy()
	if me.node == "" || b.conn.session() != me.session {
		return 0, 0, election.ErrSessionLost
	}
	for range attempts {
		data, root, err := b.conn.zk.Get(b.base)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && root.Czxid != me.born:
			return 0, 0, election.ErrDeleted
		case err != nil:
			return 0, 0, err
		case over(data) != nil:
			return 0, 0, over(data)
		}
		holder, term, err := b.term()
		if err != nil {
			return 0, 0, err
		}
		_, leader, mine, err := b.leads(me)
		switch {
		case err != nil:
			return 0, 0, err
		case mine:
			return uint64(leader.Czxid), 0, nil
		case leader != nil:
			return 0, 0, nil
		}
		if wait := b.lockDelay(holder, term); wait > 0 {
			return 0, wait, nil
		}
		ops := []any{
			&zk.CheckVersionRequest{Path: b.base, Version: root.Version},
			// It goes with its session, and with Leave: a late request fails here.
			&zk.CheckVersionRequest{Path: b.path(me.node), Version: -1},
			&zk.CreateRequest{Path: b.path(leaderNode),
				Data: encode(leaderRecord{Candidate: me.Candidate}), Acl: b.conn.cfg.ACL,
				Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: b.path(termNode), Data: b.conn.term(me.ID),
				Version: term.Version},
		}
		if kept, _, err := b.conn.zk.Exists(b.path(yieldNode)); err != nil {
			return 0, 0, err
		} else if kept {
			ops = append(ops, &zk.DeleteRequest{Path: b.path(yieldNode), Version: -1})
		}
		answers, err := b.conn.zk.Multi(ops...)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			if err := b.clearWay(me, term); err != nil {
				return 0, 0, err
			}
			continue
		case errors.Is(err, zk.ErrBadVersion):
			continue
		case errors.Is(err, zk.ErrNotEmpty): // the order, by a stranger
			if err := b.uproot(b.path(yieldNode)); err != nil {
				return 0, 0, err
			}
			continue
		case errors.Is(err, zk.ErrNoNode):
			if len(answers) > 1 && answers[1].Error != nil {
				// Its node is gone: with its session, or a stranger took it, and then there will be
				// another.
				return 0, b.conn.timeout() / 3, nil
			}
			continue
		case err != nil:
			return 0, 0, err
		}
		// The token is the node's, so it has to be read; mine, or the session has ended since.
		_, leader, mine, err = b.leads(me)
		switch {
		case err != nil:
			return 0, 0, err
		case !mine:
			return 0, b.conn.timeout() / 10, nil
		}
		return uint64(leader.Czxid), 0, nil
	}
	return 0, 0, errChanged
}

// clearWay removes what a stranger put in the leader's place and no session's end removes. The term
// makes a late request miss a leader, and the candidate's node one of another election of the name.
func (b *backend) clearWay(me candidacy, term *zk.Stat) error {
	_, stat, err := b.conn.zk.Get(b.path(leaderNode))
	if errors.Is(err, zk.ErrNoNode) || err == nil && ephemeral(stat) {
		return nil
	}
	if err == nil {
		err = b.uproot(b.path(leaderNode))
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

// uproot removes what is below a node that has no business to have children.
func (b *backend) uproot(path string) error {
	children, _, err := b.conn.zk.Children(path)
	for _, child := range children {
		if err := b.uproot(path + "/" + child); err != nil {
			return err
		}
		if err := b.conn.zk.Delete(path+"/"+child, -1); err != nil &&
			!errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// term reads who led last, and the guard's version. A stranger may have removed the node: then it
// is made again, as of one who did not give the leadership up.
func (b *backend) term() (holder []byte, stat *zk.Stat, err error) {
	for range attempts {
		data, stat, err := b.conn.zk.Get(b.path(termNode))
		if !errors.Is(err, zk.ErrNoNode) {
			return data, stat, err
		}
		_, err = b.conn.zk.Create(b.path(termNode), []byte("?"), 0, b.conn.cfg.ACL)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil, election.ErrDeleted
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return nil, nil, err
		}
	}
	return nil, nil, errChanged
}

// lockDelay is how long to wait yet for a leader that did not give the leadership up. The wait
// begins when that very leader, whose token is the zxid of the term's last change, is seen to have
// gone.
func (b *backend) lockDelay(holder []byte, term *zk.Stat) time.Duration {
	delay := lockDelayOf(holder, b.conn.lockDelay())
	if delay <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.vacant.IsZero() || b.led != term.Mzxid {
		b.vacant, b.led = time.Now(), term.Mzxid
	}
	return delay - time.Since(b.vacant)
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
