package onzk

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/go-zookeeper/zk"
)

func (b *backend) Join(ctx context.Context, c election.Candidate) (session string, err error) {
	// A connection that has just been made gets a moment to open its session.
	soon, cancel := context.WithTimeout(ctx, time.Second)
	_, _ = b.conn.state.Wait(soon, func(c election.Contact) bool {
		return c.Session != "" || c.Closed
	})
	cancel()
	id := b.conn.session()
	if id == 0 {
		return "", errors.New(
			"no session with ZooKeeper: no server has answered yet, or none does any more")
	}
	if err := b.operate(ctx, "join", func() error { return b.join(c, id) }); err != nil {
		return "", err
	}
	b.succeeded()
	return sessionName(id), nil
}

// session is the session of this moment, 0 without one.
func (c *Conn) session() int64 {
	id, _ := c.dialer.current()
	return id
}

// join makes a node for the candidate, if it has none in this session.
func (b *backend) join(c election.Candidate, session int64) error {
	b.update(func(me *candidacy) {
		if me.Candidate.ID != c.ID {
			*me = candidacy{}
		}
		me.Candidate, me.left = c, false
	})
	for range attempts {
		data, stat, err := b.ensureElection()
		if err != nil {
			return err
		}
		if err := endedError(data); err != nil {
			return err
		}
		// The cost of a listing rises with the number of candidates. So only a candidate with a
		// create of unknown outcome lists.
		node := ""
		if b.candidacy().createUnknown {
			if node, err = b.findNode(session, guidOf(c.ID)); err != nil {
				return err
			}
		}
		if node == "" {
			var before bool
			place := c.Priority
			b.update(func(me *candidacy) {
				before, me.createUnknown = me.createUnknown, true
				if me.madeWay {
					place = min(place, math.MinInt32)
				}
			})
			ops := append(b.checkIdentity(data), &zk.CheckVersionRequest{Path: b.base,
				Version: stat.Version},
				&zk.CreateRequest{Path: b.path(candidateName(c.ID, place)), Data: encode(c),
					Acl: b.conn.cfg.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence})
			answers, err := b.conn.zk.Multi(ops...)
			switch {
			case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
				b.update(func(me *candidacy) { me.createUnknown = before })
				if err := b.ensureIdentity(data, stat); err != nil {
					return err
				}
				continue // ended or deleted in between
			case err != nil:
				return err
			}
			node = strings.TrimPrefix(answers[len(ops)-1].String, b.base+"/")
			exists, at, err := b.conn.zk.Exists(b.path(node))
			switch {
			case err != nil:
				return err
			case !exists || at.EphemeralOwner != session:
				// The create waited for a connection, and was applied in another session.
				if exists {
					_ = b.conn.zk.Delete(b.path(node), -1)
				}
				return election.ErrSessionLost
			}
			// Reset createUnknown only here. On every earlier return there may be a node that the
			// next attempt has to find.
			b.update(func(me *candidacy) { me.createUnknown = before })
		}
		b.update(func(me *candidacy) {
			me.session, me.node, me.incarnation = session, node, stat.Czxid
		})
		return nil
	}
	return errChanged
}

// ensureElection reads the election's node. It creates it if it does not exist, and gives it an
// identity if it has none.
func (b *backend) ensureElection() ([]byte, *zk.Stat, error) {
	if err := b.checkPlace(); err != nil {
		return nil, nil, err
	}
	for range attempts {
		data, stat, err := b.conn.zk.Get(b.base)
		if err == nil {
			again, err := b.identify(data, stat)
			if again && err == nil {
				continue
			}
			if errors.Is(err, zk.ErrNoAuth) { // it may not end the election either
				err = nil
			}
			return data, stat, err
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, nil, err
		}
		if err := b.createElection(); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errChanged
}

// createElection creates the election's node. It is no error if the node exists.
func (b *backend) createElection() error {
	acl, data := b.conn.cfg.ACL, encode(electionRecord{ID: rand.Text()})
	make := func() error {
		_, err := b.conn.zk.Multi(&zk.CreateRequest{Path: b.base, Data: data, Acl: acl},
			&zk.CreateRequest{Path: b.path(termNode), Acl: acl},
			&zk.CreateRequest{Path: b.path(identity(data)), Acl: acl})
		return err
	}
	err := make()
	if errors.Is(err, zk.ErrNoNode) {
		for i, r := range b.base {
			if r != '/' || i == 0 {
				continue
			}
			if err := b.createParent(b.base[:i]); err != nil {
				return err
			}
		}
		err = make()
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// createParent creates a node that elections are below. It is no error if the node exists, in
// another's: ZooKeeper says first that nothing may be created there.
func (b *backend) createParent(path string) error {
	_, err := b.conn.zk.Create(path, nil, 0, b.conn.cfg.ACL)
	if errors.Is(err, zk.ErrNoAuth) {
		if there, _, failed := b.conn.zk.Exists(path); there || failed != nil {
			return failed
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// findNode returns the candidate's node of the session, and removes further ones. Nodes of an
// earlier session may still be there: ZooKeeper removes them by itself.
func (b *backend) findNode(session int64, guid string) (node string, err error) {
	children, err := b.childrenNow()
	if err != nil {
		return "", err
	}
	for _, p := range queue(children) {
		if p.guid != guid {
			continue
		}
		exists, stat, err := b.conn.zk.Exists(b.path(p.node))
		switch {
		case err != nil:
			return "", err
		case !exists || stat.EphemeralOwner != session:
		case node == "":
			node = p.node
		default:
			if err := b.conn.zk.Delete(b.path(p.node), -1); err != nil &&
				!errors.Is(err, zk.ErrNoNode) {
				return "", err
			}
		}
	}
	return node, nil
}

// childrenNow returns the children of the election's node as of now: what a request has created
// before, over another connection, may not have come to this server yet.
func (b *backend) childrenNow() ([]string, error) {
	if err := b.catchUp(); err != nil {
		return nil, err
	}
	children, _, err := b.conn.zk.Children(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// catchUp has this connection's server hear of all that the ensemble has acknowledged before: it
// may be behind what others know, unless its session has just begun.
func (b *backend) catchUp() error {
	_, err := b.conn.zk.Sync(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
