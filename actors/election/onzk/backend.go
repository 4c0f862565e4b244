package onzk

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// attempts is how often a transaction is put together anew because what it was based on had changed.
const attempts = 8

var errChanged = errors.New("the election changes too fast: try again")

type backend struct {
	conn *Conn
	name string
	base string // path of the election's node

	turn chan struct{} // holds a token while Join, Take, Release or Leave is at work, even if the caller has gone
	kick chan struct{} // cap 1: something of the below has changed

	mu sync.Mutex
	me candidacy
	// floor is the last reading begun before the latest operation ended: what is older must not be published.
	floor   uint64
	working bool // an operation is under way
	ops     int  // operations that have succeeded, see election.View
	// vacant is since when nobody is seen to lead, zero while somebody is; led is the token of whoever was seen to lead last.
	vacant time.Time
	led    int64
}

// candidacy is what a backend knows of its own candidate.
type candidacy struct {
	election.Candidate
	session int64
	node    string // name of its node; empty: not joined, or left
	born    int64  // creation zxid of the election's node that it joined
	unsure  bool   // a create's outcome is not known
	left    bool
}

func newBackend(c *Conn, name string) *backend {
	return &backend{conn: c, name: name, base: c.cfg.Root + "/" + name, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
}

func (b *backend) Contact() messages.Reader[election.Contact] { return b.conn.state }

func (b *backend) path(child string) string { return b.base + "/" + child }

func (b *backend) candidacy() candidacy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.me
}

func (b *backend) update(f func(*candidacy)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.me)
}

// succeeded counts an operation for Watch; the floor is that operation's already.
func (b *backend) succeeded() {
	b.mu.Lock()
	b.ops++
	b.mu.Unlock()
	b.nudge()
}

func (b *backend) nudge() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// operate runs one operation after another. When ctx ends first, the operation goes on by itself and the next one waits for it: so none
// of them can be overtaken by its successor.
func (b *backend) operate(ctx context.Context, what string, f func() error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s in %s: the last request is not done yet: %w", what, b.name, ctx.Err())
	}
	err := b.conn.call(ctx, func() error {
		defer func() { <-b.turn }()
		b.mu.Lock()
		b.working = true
		b.mu.Unlock()
		err := f()
		b.mu.Lock()
		b.working = false
		b.floor = b.conn.readings.Load()
		own := b.me.node
		b.mu.Unlock()
		b.conn.refresh(b.base, b.path(leaderNode), b.path(own))
		b.nudge()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s in %s: %w", what, b.name, err)
	}
	return nil
}

func (b *backend) Join(ctx context.Context, c election.Candidate) (session string, err error) {
	// A moment for a connection that has just been made.
	soon, cancel := context.WithTimeout(ctx, time.Second)
	_, err = b.conn.state.Wait(soon, func(c election.Contact) bool { return c.Session != "" || c.Closed })
	cancel()
	id := b.conn.session()
	if id == 0 {
		return "", errors.New("no session with ZooKeeper: no server has answered yet, or none does any more")
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
		data, stat, err := b.ensure()
		if err != nil {
			return err
		}
		if err := over(data); err != nil {
			return err
		}
		// Listing costs as much as there are candidates, so only who has tried before looks.
		node := ""
		if b.candidacy().unsure {
			if node, err = b.find(session, guidOf(c.ID)); err != nil {
				return err
			}
		}
		if node == "" {
			var before bool
			b.update(func(me *candidacy) { before, me.unsure = me.unsure, true })
			ops := append(b.this(data), &zk.CheckVersionRequest{Path: b.base, Version: stat.Version},
				&zk.CreateRequest{Path: b.path(candidateName(c.ID, c.Priority)), Data: encode(c), Acl: b.conn.cfg.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence})
			answers, err := b.conn.zk.Multi(ops...)
			switch {
			case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
				b.update(func(me *candidacy) { me.unsure = before })
				if err := b.identify(data, stat); err != nil {
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
				// It waited for a connection, and the session that it was meant for is over.
				if exists {
					_ = b.conn.zk.Delete(b.path(node), -1)
				}
				return election.ErrSessionLost
			}
			// Only now: on every way out before, there may be a node that the next attempt has to find.
			b.update(func(me *candidacy) { me.unsure = before })
		}
		b.update(func(me *candidacy) { me.session, me.node, me.born = session, node, stat.Czxid })
		return nil
	}
	return errChanged
}

// ensure returns the election's node, which is made if need be.
func (b *backend) ensure() ([]byte, *zk.Stat, error) {
	for range attempts {
		data, stat, err := b.conn.zk.Get(b.base)
		if !errors.Is(err, zk.ErrNoNode) {
			return data, stat, err
		}
		if err := b.create(); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errChanged
}

// this is the condition that the election is the one whose data that was.
func (b *backend) this(data []byte) []any {
	if node := identity(data); node != "" {
		return []any{&zk.CheckVersionRequest{Path: b.path(node), Version: -1}}
	}
	return nil
}

// identify makes the election's identity again if a stranger removed it: nothing could be ordered without it.
func (b *backend) identify(data []byte, stat *zk.Stat) error {
	node := identity(data)
	if node == "" {
		return nil
	}
	if there, _, err := b.conn.zk.Exists(b.path(node)); there || err != nil {
		return err
	}
	_, err := b.conn.zk.Multi(&zk.CheckVersionRequest{Path: b.base, Version: stat.Version}, &zk.CreateRequest{Path: b.path(node), Acl: b.conn.cfg.ACL})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// create makes the election's node, open to all; that it is there already is no error.
func (b *backend) create() error {
	acl, data := b.conn.cfg.ACL, encode(fate{ID: rand.Text()})
	make := func() error {
		_, err := b.conn.zk.Multi(&zk.CreateRequest{Path: b.base, Data: data, Acl: acl}, &zk.CreateRequest{Path: b.path(termNode), Acl: acl},
			&zk.CreateRequest{Path: b.path(identity(data)), Acl: acl})
		return err
	}
	err := make()
	if errors.Is(err, zk.ErrNoNode) {
		for i, r := range b.base {
			if r != '/' || i == 0 {
				continue
			}
			if _, err := b.conn.zk.Create(b.base[:i], nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
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

// find returns the candidate's node that belongs to the session, and removes all but one of them. Nodes of an earlier
// session may still be seen: ZooKeeper removes them by itself.
func (b *backend) find(session int64, guid string) (node string, err error) {
	children, _, err := b.conn.zk.Children(b.base)
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
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
			if err := b.conn.zk.Delete(b.path(p.node), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return "", err
			}
		}
	}
	return node, nil
}

// leads reads the leader's node, without a stat if there is none or it is none of a session. mine: it is this candidate's, in the session that it joined with.
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
		r = leaderRecord{Candidate: election.Candidate{ID: fmt.Sprintf("zxid-%x", stat.Czxid), Name: "(a record that is none of ours)"}}
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
			&zk.CreateRequest{Path: b.path(leaderNode), Data: encode(leaderRecord{Candidate: me.Candidate}), Acl: b.conn.cfg.ACL, Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: b.path(termNode), Data: b.conn.term(me.ID), Version: term.Version},
		}
		if kept, _, err := b.conn.zk.Exists(b.path(yieldNode)); err != nil {
			return 0, 0, err
		} else if kept {
			ops = append(ops, &zk.DeleteRequest{Path: b.path(yieldNode), Version: -1})
		}
		answers, err := b.conn.zk.Multi(ops...)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			if err := b.clearWay(term); err != nil {
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
				// Its node is gone: with its session, or a stranger took it, and then there will be another.
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

// clearWay removes what a stranger put in the leader's place and no session's end removes. The term makes a late request miss a leader.
func (b *backend) clearWay(term *zk.Stat) error {
	_, stat, err := b.conn.zk.Get(b.path(leaderNode))
	if errors.Is(err, zk.ErrNoNode) || err == nil && ephemeral(stat) {
		return nil
	}
	if err == nil {
		err = b.uproot(b.path(leaderNode))
	}
	if err == nil {
		_, err = b.conn.zk.Multi(&zk.CheckVersionRequest{Path: b.path(termNode), Version: term.Version}, &zk.DeleteRequest{Path: b.path(leaderNode), Version: stat.Version})
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty) {
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
		if err := b.conn.zk.Delete(path+"/"+child, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// term reads who led last, and the guard's version. A stranger may have removed the node: then it is made again, as of one
// who did not give the leadership up.
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

// lockDelay is how long to wait yet for a leader that did not give the leadership up. The wait begins when that very leader, whose token is the zxid
// of the term's last change, is seen to have gone.
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

func (b *backend) Release(ctx context.Context) error {
	err := b.operate(ctx, "give the leadership up", func() error { return b.remove(b.candidacy(), false) })
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
		// A create that was on its way over an earlier connection may still arrive, in theory: the server reads what it has got, and
		// then that the connection is closed.
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
		if err := b.conn.zk.Delete(b.path(p.node), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// remove gives up the leadership if it is this candidate's, and its place in the queue if it is to leave, in one transaction. The
// term's version makes it fail when somebody else has led since, however late it arrives.
func (b *backend) remove(me candidacy, place bool) error {
	for range attempts {
		_, term, err := b.term()
		if errors.Is(err, election.ErrDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
		_, leader, mine, err := b.leads(me)
		if err != nil {
			return err
		}
		var ops []any
		if mine {
			ops = append(ops,
				&zk.SetDataRequest{Path: b.path(termNode), Data: nil, Version: term.Version},
				&zk.DeleteRequest{Path: b.path(leaderNode), Version: leader.Version})
		}
		if place {
			exists, _, err := b.conn.zk.Exists(b.path(me.node))
			if err != nil {
				return err
			}
			if exists {
				ops = append(ops, &zk.DeleteRequest{Path: b.path(me.node), Version: -1})
			}
		}
		if len(ops) == 0 {
			return nil
		}
		_, err = b.conn.zk.Multi(ops...)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return errChanged
}
