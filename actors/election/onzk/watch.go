package onzk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/messages"
	"github.com/go-zookeeper/zk"
)

// pauseList is the pause after a listing that failed.
const pauseList = 200 * time.Millisecond

// subscription is one watcher's use of a shared watch. The zero value follows nothing.
type subscription struct {
	node   *sharedWatch
	cursor *messages.Cursor[reading]
	now    reading // as of the last take; zero: never read
}

func (c *Conn) subscribe(path string) subscription {
	n := c.follow(path)
	return subscription{node: n, cursor: n.state.Subscribe()}
}

func (f *subscription) is(path string) bool { return f.node != nil && f.node.path == path }

// take updates now. It is called once before each view and nowhere else: a change that it has taken
// wakes nobody again, so a view must be made of it.
func (f *subscription) take() {
	if f.node != nil {
		f.now = f.cursor.Take()
	}
}

func (f *subscription) changed() <-chan struct{} {
	if f.node == nil {
		return nil
	}
	return f.cursor.Changed()
}

// watcher is one Watch: the nodes that it follows and its place in the queue. It belongs to one
// goroutine.
type watcher struct {
	b                *backend
	root, leader     subscription
	own, predecessor subscription // this candidate's node, and the one before it in the queue

	lease            messages.Lease     // of the connection's last session
	mine             bool               // the last view said that this candidate leads
	incarnation      int64              // creation zxid of the election's node; 0: not seen yet
	position         queuePosition      // as of the last listing
	listed           chan queuePosition // the result of the listing under way
	listing          bool               // a listing is under way
	listAgainAt      time.Time          // no listing before then, after one that failed
	nodeMissingSince time.Time          // zero: this candidate's node is there
	wake             time.Time          // when to look again though nothing changes; zero: never
}

// queuePosition is a candidate's place in the queue as of one listing.
type queuePosition struct {
	number      uint64 // of the reading; 0: none
	node        string // of this candidate
	nodeVersion int32  // of that node; a hand-over changes it so that the candidate lists again
	predecessor string // the node before it; empty: it is the first
	// handOverTo is the id of the candidate of a hand-over; empty: there is none.
	handOverTo   string
	handOverNode string // that candidate's node
	holdBack     time.Duration
	// lockDelay is that of the last leader, if it did not give the leadership up and there is a
	// hand-over.
	lockDelay time.Duration
	prepared  *preparation // for a take; nil: nothing is known
	err       error
}

func (b *backend) Watch(ctx context.Context, publish func(election.View)) {
	w := &watcher{b: b, root: b.conn.subscribe(b.base),
		leader: b.conn.subscribe(b.path(leaderNode)),
		listed: make(chan queuePosition, 1)}
	defer func() {
		for _, f := range []subscription{w.root, w.leader, w.own, w.predecessor} {
			b.conn.unfollow(f.node)
		}
	}()
	var last election.View
	var seen, complained bool
	for {
		w.wake = time.Time{}
		for _, f := range []*subscription{&w.root, &w.leader, &w.own, &w.predecessor} {
			f.take()
		}
		view, fresh := w.view(ctx, time.Now())
		if fresh && !view.Mine {
			w.b.leadsNoMore(min(w.root.now.number, w.leader.now.number))
		}
		if !w.behind() {
			w.b.denied(toLook, w.obstacle())
		}
		if err := w.outage(time.Now()); err != nil {
			view, fresh = last, seen
			view.Err, view.Turn = err, false
		}
		if err := w.readError(); !seen && !complained && err != nil {
			publish(election.View{Ops: -1, Err: err})
			complained = true
		}
		if fresh && (!seen || !same(last, view)) {
			publish(view)
			last, seen, w.mine = view, true, view.Mine
		}
		if !w.wait(ctx) {
			return
		}
	}
}

func same(a, b election.View) bool {
	if (a.Err == nil) != (b.Err == nil) {
		return false
	}
	a.Err, b.Err = nil, nil
	return a == b
}

// wait returns true when there may be something new, and false when ctx has ended.
func (w *watcher) wait(ctx context.Context) bool {
	var alarm <-chan time.Time
	if !w.wake.IsZero() {
		timer := time.NewTimer(max(time.Until(w.wake), time.Millisecond))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.b.conn.ctx.Done():
		// Contact tells that the connection is closed.
		<-ctx.Done()
		return false
	case <-w.root.changed():
	case <-w.leader.changed():
	case <-w.own.changed():
	case <-w.predecessor.changed():
	case <-w.b.wakeWatch:
	case w.position = <-w.listed:
		w.listing = false
		w.b.prepare(w.position.prepared)
		if w.position.err == nil {
			w.followPredecessor(w.position.predecessor)
		} else {
			w.listAgainAt = time.Now().Add(pauseList)
		}
	case <-alarm:
	}
	return true
}

// wakeAt makes wait return at t at the latest.
func (w *watcher) wakeAt(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}

// readError returns why a node cannot be read; nil: all can.
func (w *watcher) readError() error {
	if w.root.now.err != nil {
		return w.root.now.err
	}
	return w.leader.now.unknown()
}

// behind tells whether there is a candidate before this one, which holds nobody up then.
func (w *watcher) behind() bool {
	before := w.predecessor.now
	return w.position.err == nil && w.position.predecessor != "" &&
		(before.number == 0 || before.exists)
}

// obstacle returns why this candidate cannot tell whether it is its turn, a denial before others;
// nil: it can.
func (w *watcher) obstacle() (why error) {
	for _, err := range []error{w.root.now.err, w.position.err} {
		if why == nil || errors.Is(err, zk.ErrNoAuth) {
			why = err
		}
	}
	return why
}

// errNoContact is that nothing is known to have come from ZooKeeper for as long as a session lives.
var errNoContact = errors.New("ZooKeeper was not heard of for a session's timeout")

// outage returns the error of a node that could not be read for as long as a session lives; nil:
// there is none. Nothing need fail: while nobody answers no change is told, and a reading may wait
// for a connection. So it is also an outage that the lease is over. A candidate knows that by
// itself.
func (w *watcher) outage(now time.Time) error {
	if c := w.b.conn.state.Get(); c.Session != "" {
		w.lease = c.Lease
	}
	if w.lease.TTL > 0 && w.own.node == nil {
		if left := w.lease.Left(now); left > 0 {
			w.wakeAt(now.Add(left))
		} else {
			w.wakeAt(now.Add(w.lease.TTL / 12)) // to see whether it holds again
			return errNoContact
		}
	}
	leader := w.leader.now
	leader.err = leader.unknown()
	for _, r := range []reading{w.root.now, leader} {
		if r.err == nil {
			continue
		}
		if until := r.failing.Add(w.b.conn.timeout()); now.Before(until) {
			w.wakeAt(until)
			continue
		}
		return r.err
	}
	return nil
}

// view makes a view of the readings. fresh: none of them is older than the last operation.
func (w *watcher) view(ctx context.Context, now time.Time) (v election.View, fresh bool) {
	b := w.b
	b.mu.Lock()
	me, floor, working := b.me, b.minReading, b.working
	v.Ops = b.ops
	b.mu.Unlock()
	w.track(me)
	root, leader, own := w.root.now, w.leader.now, w.own.now
	// A leader node that is not ephemeral was created by a stranger and counts for nothing.
	leader.exists = leader.exists && ephemeral(&leader.stat)
	if root.number <= floor || leader.number <= floor || w.own.node != nil && own.number <= floor {
		return v, false
	}
	if session := b.conn.session(); root.session != session || leader.session != session {
		return v, false // they are read again as soon as there is a session
	}
	if me.incarnation != 0 {
		w.incarnation = me.incarnation
	}
	if !root.exists || w.incarnation != 0 && root.stat.Czxid != w.incarnation {
		v.Deleted = w.incarnation != 0
		v.Ended = v.Deleted
		return v, true
	}
	w.incarnation = root.stat.Czxid
	v.Ended, v.Deleted = parseEnded(root.data)
	if leader.exists {
		r := parseLeader(leader.data, &leader.stat)
		v.Leader, v.Token, v.Yield, v.Mine = r.Candidate, uint64(leader.stat.Czxid), r.Yield,
			me.isLeader(r, &leader.stat)
	}
	if v.Mine && working && !w.mine {
		return v, false // Take will tell, with the token
	}
	vacant, delayed := b.vacancy(leader, now)
	if me.node == "" || v.Ended {
		return v, true
	}
	if !own.exists || own.stat.EphemeralOwner != me.session {
		w.rejoin(ctx, me, now)
		return v, true
	}
	w.nodeMissingSince = time.Time{}
	v.Turn = w.positionKnown(me, own, leader, now) && w.turn(me, vacant, now)
	if v.Turn && now.Before(delayed) {
		// After a refused Take everything is read again. With the Turn still set, the core would
		// try again at once.
		v.Turn = false
		w.wakeAt(delayed)
	}
	if leader.exists && !v.Mine && me.takeUnknown && leader.stat.EphemeralOwner == me.session {
		v.Turn = true // another take tells by the term whether this is the last one's
	}
	// Without a leader, the view waits for the first listing: it says whether this candidate leads.
	return v, leader.exists || w.position.number != 0 && w.position.node == me.node
}

// rejoin creates the candidate's node again if a stranger has removed it. It pauses before: if the
// whole election is being removed, node by node, a new node would be in the way.
func (w *watcher) rejoin(ctx context.Context, me candidacy, now time.Time) {
	pause := w.b.conn.timeout() / 3
	if w.nodeMissingSince.IsZero() {
		w.nodeMissingSince = now
	}
	if now.Before(w.nodeMissingSince.Add(pause)) || w.b.conn.session() != me.session {
		w.wakeAt(w.nodeMissingSince.Add(pause))
		return
	}
	w.nodeMissingSince = now
	w.wakeAt(now.Add(pause))
	w.b.conn.spawn("join again", func() {
		_ = w.b.operate(ctx, "join again", func() error {
			if now := w.b.candidacy(); now.node != me.node || now.left {
				return nil
			}
			return w.b.join(me.Candidate, me.session)
		})
	})
}

// vacancy records whether somebody leads. It returns since when nobody does, and until when a
// lock-delay is known to last.
func (b *backend) vacancy(leader reading, now time.Time) (since, delayed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case leader.exists:
		b.vacantSince, b.lastToken = time.Time{}, leader.stat.Czxid
		b.delayedUntil = time.Time{}
	case b.vacantSince.IsZero():
		b.vacantSince = now
	}
	return b.vacantSince, b.delayedUntil
}

// track follows this candidate's node if it has one.
func (w *watcher) track(me candidacy) {
	if me.node == "" {
		w.b.conn.unfollow(w.own.node)
		w.own = subscription{}
		return
	}
	if path := w.b.path(me.node); !w.own.is(path) {
		w.b.conn.unfollow(w.own.node)
		w.own = w.b.conn.subscribe(path)
	}
}

// followPredecessor follows the node before this one to learn when it goes; empty: there is none.
func (w *watcher) followPredecessor(node string) {
	if node != "" && w.predecessor.is(w.b.path(node)) {
		return
	}
	w.b.conn.unfollow(w.predecessor.node)
	w.predecessor = subscription{}
	if node != "" {
		w.predecessor = w.b.conn.subscribe(w.b.path(node))
	}
}

// positionKnown tells whether nobody leads and w.position is new enough to decide whose turn it is.
// If it is too old, it starts a listing. Only a candidate that is the first, is the candidate of a
// hand-over, or has lost its predecessor lists.
func (w *watcher) positionKnown(me candidacy, own, leader reading, now time.Time) bool {
	if w.listing {
		return false
	}
	before := w.predecessor.now
	l := w.position
	current := l.number != 0 && l.err == nil && l.node == me.node &&
		l.nodeVersion == own.stat.Version &&
		!(before.number != 0 && !before.exists)
	if current && !leader.exists && (l.predecessor == "" || l.handOverTo == me.ID) &&
		l.number <= leader.since && (l.prepared == nil || l.number <= leader.found) {
		// A candidate of higher priority may have come, and the hand-over may have changed. That
		// the last leader's place is free is often heard before that nobody leads. A listing that
		// was begun between the two has found, beside, that the leadership had been given up.
		current = false
	}
	if current {
		return !leader.exists
	}
	if l.err != nil && now.Before(w.listAgainAt) {
		w.wakeAt(w.listAgainAt)
		return false
	}
	w.listing = true
	// The channel has room: one listing at a time is under way.
	ready := w.prepares(leader)
	w.b.conn.spawn("the list of candidates", func() {
		w.listed <- w.b.list(me, own.stat.Version, ready)
	})
	return false
}

// turn tells whether it is this candidate's turn. Nobody has led since vacant. Whom the leadership
// was handed over to cannot take it before the lock-delay is over, so the others wait from then.
func (w *watcher) turn(me candidacy, vacant, now time.Time) bool {
	l := w.position
	if l.handOverTo == me.ID && l.handOverTo != "" {
		return true
	}
	if l.predecessor != "" {
		return false
	}
	until := vacant.Add(l.lockDelay).Add(l.holdBack)
	if l.handOverTo != "" && now.Before(until) {
		w.followPredecessor(l.handOverNode) // that candidate may leave
		w.wakeAt(until)
		return false
	}
	return true
}

// list finds this candidate's position in the queue. ready is what a take would need beside it.
func (b *backend) list(me candidacy, seen int32, ready <-chan *preparation) queuePosition {
	got := make(chan queuePosition, 1)
	err := b.conn.call(b.conn.ctx, func() error {
		l := queuePosition{number: b.conn.readings.Add(1), node: me.node, nodeVersion: seen}
		children, _, err := b.conn.zk.Children(b.base)
		if err != nil {
			return err
		}
		places := queue(children)
		i := slices.IndexFunc(places, func(p queueEntry) bool { return p.node == me.node })
		if i < 0 {
			return zk.ErrNoNode
		}
		own := func(p queueEntry) bool { return p.guid == guidOf(me.ID) && p.node != me.node }
		for _, p := range places {
			if !own(p) {
				continue
			}
			// This is a further node of the candidate. A create that was given up has arrived after
			// all, or the node belongs to an earlier session and will go with it. In this session
			// nobody else would remove it, and everyone behind it would wait.
			exists, stat, err := b.conn.zk.Exists(b.path(p.node))
			if err == nil && exists && stat.EphemeralOwner == me.session {
				err = b.conn.zk.Delete(b.path(p.node), -1)
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		for j := i - 1; j >= 0 && l.predecessor == ""; j-- {
			if own(places[j]) {
				continue
			}
			stands, err := b.isEphemeral(places[j].node)
			if err != nil {
				return err
			}
			if stands {
				l.predecessor = places[j].node
			}
		}
		if slices.Contains(children, yieldNode) {
			data, _, err := b.conn.zk.Get(b.path(yieldNode))
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
				return err
			}
			var y yieldRecord // none if a stranger keeps it to himself
			_ = json.Unmarshal(data, &y)
			if j := slices.IndexFunc(places, func(p queueEntry) bool {
				return y.To != "" && p.guid == guidOf(y.To)
			}); j >= 0 {
				stands, err := b.isEphemeral(places[j].node)
				if err != nil {
					return err
				}
				if stands {
					l.handOverTo, l.handOverNode = y.To, places[j].node
					l.holdBack = y.holdBack(b.conn.cfg.HoldBack)
					holder, _, err := b.conn.zk.Get(b.path(termNode))
					if err != nil && !errors.Is(err, zk.ErrNoNode) {
						return err
					}
					l.lockDelay = lockDelayOf(holder, b.conn.lockDelay())
				}
			}
		}
		if l.prepared = <-ready; l.prepared != nil {
			l.prepared.yields = slices.Contains(children, yieldNode)
		}
		got <- l
		return nil
	})
	if err != nil {
		return queuePosition{err: err, node: me.node}
	}
	return <-got
}

// isEphemeral tells whether a candidate's node is deleted with a session. One that is not was made
// by a stranger. Nobody would remove it, so nobody waits for it.
func (b *backend) isEphemeral(node string) (bool, error) {
	exists, stat, err := b.conn.zk.Exists(b.path(node))
	return exists && err == nil && ephemeral(stat), err
}
