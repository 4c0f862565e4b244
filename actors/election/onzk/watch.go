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

// pauseList is how long to wait after a listing that failed.
const pauseList = 200 * time.Millisecond

// followed is a cell with this watcher's place in it. The zero one follows nothing.
type followed struct {
	cell   *cell
	cursor *messages.Cursor[reading]
	now    reading // as of the last take; the zero one was never read
}

func (c *Conn) followed(path string) followed {
	n := c.follow(path)
	return followed{cell: n, cursor: n.state.Subscribe()}
}

func (f *followed) is(path string) bool { return f.cell != nil && f.cell.path == path }

// take reads what there is to be read. It is called once before each view and nowhere else: what it
// has taken wakes nobody again, so a view must have been made of it.
func (f *followed) take() {
	if f.cell != nil {
		f.now = f.cursor.Take()
	}
}

func (f *followed) changed() <-chan struct{} {
	if f.cell == nil {
		return nil
	}
	return f.cursor.Changed()
}

// watcher is one Watch: what it follows, and what it knows of the queue. It belongs to one
// goroutine.
type watcher struct {
	b            *backend
	root, leader followed
	own, before  followed // this candidate's node and the one that it waits for

	mine  bool      // was told that this candidate leads
	born  int64     // creation zxid of the election's node; 0: there was none yet
	line  line      // this candidate's place
	lists chan line // the outcome of the listing under way
	busy  bool      // there is one
	again time.Time // not before then after a listing that failed
	stray time.Time // since when this candidate's node is missing
	wake  time.Time // when to look again though nothing changes
}

// line is a candidate's place in the queue as of one listing.
type line struct {
	number uint64 // of the reading; 0: there was none
	node   string // whose place it is
	seen   int32  // version of that node: it changes when the candidate is to look
	before string // the node to wait for; empty: it is the first
	// id that the leadership is kept free for, if that one is a candidate; empty: nobody's
	keptTo string
	keeper string // its node
	err    error
}

func (b *backend) Watch(ctx context.Context, publish func(election.View)) {
	w := &watcher{b: b, root: b.conn.followed(b.base), leader: b.conn.followed(b.path(leaderNode)),
		lists: make(chan line, 1)}
	defer func() {
		for _, f := range []followed{w.root, w.leader, w.own, w.before} {
			b.conn.unfollow(f.cell)
		}
	}()
	var last election.View
	var seen, complained bool
	for {
		w.wake = time.Time{}
		for _, f := range []*followed{&w.root, &w.leader, &w.own, &w.before} {
			f.take()
		}
		view, fresh := w.look(ctx, time.Now())
		if err := w.silence(time.Now()); err != nil {
			view, fresh = last, seen
			view.Err, view.Turn = err, false
		}
		if err := w.trouble(); !seen && !complained && err != nil {
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

// wait returns when there may be something new, or false when ctx has ended.
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
	case <-w.before.changed():
	case <-w.b.kick:
	case w.line = <-w.lists:
		w.busy = false
		if w.line.err == nil {
			w.waitFor(w.line.before)
		} else {
			w.again = time.Now().Add(pauseList)
		}
	case <-alarm:
	}
	return true
}

// wakeAt has wait return at that time at the latest.
func (w *watcher) wakeAt(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}

// trouble is why a node cannot be read; nil when all can.
func (w *watcher) trouble() error {
	if w.root.now.err != nil {
		return w.root.now.err
	}
	return w.leader.now.err
}

// silence is the error that has kept it from seeing anything for the time of a session.
func (w *watcher) silence(now time.Time) error {
	for _, r := range []reading{w.root.now, w.leader.now} {
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

// look makes a view of what is known; fresh: nothing of it is older than the outcome of the last
// operation.
func (w *watcher) look(ctx context.Context, now time.Time) (v election.View, fresh bool) {
	b := w.b
	b.mu.Lock()
	me, floor, working := b.me, b.floor, b.working
	v.Ops = b.ops
	b.mu.Unlock()
	w.track(me)
	root, leader, own := w.root.now, w.leader.now, w.own.now
	// or it is a stranger's, and in nobody's way
	leader.exists = leader.exists && ephemeral(&leader.stat)
	if root.number <= floor || leader.number <= floor || w.own.cell != nil && own.number <= floor {
		return v, false
	}
	if me.born != 0 {
		w.born = me.born
	}
	if !root.exists || w.born != 0 && root.stat.Czxid != w.born {
		v.Deleted = w.born != 0
		v.Ended = v.Deleted
		return v, true
	}
	w.born = root.stat.Czxid
	v.Ended, v.Deleted = parseFate(root.data)
	if leader.exists {
		r := parseLeader(leader.data, &leader.stat)
		v.Leader, v.Token, v.Yield, v.Mine = r.Candidate, uint64(leader.stat.Czxid), r.Yield,
			me.isLeader(r, &leader.stat)
	}
	if v.Mine && working && !w.mine {
		return v, false // Take will tell, with the token
	}
	vacant := b.vacancy(leader, now)
	if me.node == "" || v.Ended {
		return v, true
	}
	if !own.exists || own.stat.EphemeralOwner != me.session {
		w.rejoin(ctx, me, now)
		return v, true
	}
	w.stray = time.Time{}
	v.Turn = w.place(me, own, leader, now) && w.turn(me, vacant, now)
	// Whether it leads at once or follows nobody is not told before it is known.
	return v, leader.exists || w.line.number != 0 && w.line.node == me.node
}

// rejoin makes the candidate's node anew when a stranger has removed it. After a pause: it may be
// that the whole election is being removed, node by node, and then it would be in the way.
func (w *watcher) rejoin(ctx context.Context, me candidacy, now time.Time) {
	pause := w.b.conn.timeout() / 3
	if w.stray.IsZero() {
		w.stray = now
	}
	if now.Before(w.stray.Add(pause)) || w.b.conn.session() != me.session {
		w.wakeAt(w.stray.Add(pause))
		return
	}
	w.stray = now
	w.wakeAt(now.Add(pause))
	w.b.conn.spawn(func() {
		_ = w.b.operate(ctx, "join again", func() error {
			if now := w.b.candidacy(); now.node != me.node || now.left {
				return nil
			}
			return w.b.join(me.Candidate, me.session)
		})
	})
}

// vacancy notes since when nobody is seen to lead, and returns that.
func (b *backend) vacancy(leader reading, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case leader.exists:
		b.vacant, b.led = time.Time{}, leader.stat.Czxid
	case b.vacant.IsZero():
		b.vacant = now
	}
	return b.vacant
}

// track follows this candidate's node, if it has one.
func (w *watcher) track(me candidacy) {
	if me.node == "" {
		w.b.conn.unfollow(w.own.cell)
		w.own = followed{}
		return
	}
	if path := w.b.path(me.node); !w.own.is(path) {
		w.b.conn.unfollow(w.own.cell)
		w.own = w.b.conn.followed(path)
	}
}

// waitFor follows the node, a child, to learn when it goes; empty: none.
func (w *watcher) waitFor(node string) {
	if node != "" && w.before.is(w.b.path(node)) {
		return
	}
	w.b.conn.unfollow(w.before.cell)
	w.before = followed{}
	if node != "" {
		w.before = w.b.conn.followed(w.b.path(node))
	}
}

// place tells whether nobody leads and w.line says what that means for this candidate; if the line
// is too old for that, it has it listed anew. Only who is the first, chosen, or has lost its
// predecessor lists.
func (w *watcher) place(me candidacy, own, leader reading, now time.Time) bool {
	if w.busy {
		return false
	}
	before := w.before.now
	l := w.line
	current := l.number != 0 && l.err == nil && l.node == me.node && l.seen == own.stat.Version &&
		!(before.number != 0 && !before.exists)
	if current && !leader.exists && (l.before == "" || l.keptTo == me.ID) &&
		l.number < leader.number {
		// somebody of a higher priority may have come, and the order to hand over may be another
		current = false
	}
	if current {
		return !leader.exists
	}
	if l.err != nil && now.Before(w.again) {
		w.wakeAt(w.again)
		return false
	}
	w.busy = true
	// it has room: there is one at a time
	w.b.conn.spawn(func() { w.lists <- w.b.list(me, own.stat.Version) })
	return false
}

// turn tells whether it is this candidate's turn, given that nobody leads since vacant.
func (w *watcher) turn(me candidacy, vacant, now time.Time) bool {
	l := w.line
	if l.keptTo == me.ID && l.keptTo != "" {
		return true
	}
	if l.before != "" {
		return false
	}
	if until := vacant.Add(w.b.conn.cfg.HoldBack); l.keptTo != "" && now.Before(until) {
		w.waitFor(l.keeper) // it may go, too
		w.wakeAt(until)
		return false
	}
	return true
}

// list finds this candidate's place.
func (b *backend) list(me candidacy, seen int32) line {
	got := make(chan line, 1)
	err := b.conn.call(b.conn.ctx, func() error {
		l := line{number: b.conn.readings.Add(1), node: me.node, seen: seen}
		children, _, err := b.conn.zk.Children(b.base)
		if err != nil {
			return err
		}
		places := queue(children)
		i := slices.IndexFunc(places, func(p place) bool { return p.node == me.node })
		if i < 0 {
			return zk.ErrNoNode
		}
		if j := slices.IndexFunc(places, func(p place) bool {
			return p.guid == guidOf(me.ID) && p.node != me.node
		}); j >= 0 {
			// A create that was given up arrived after all, or it is of an earlier session and
			// about to go. Nobody else removes it while the session lives, and everyone behind it
			// waits for that.
			exists, stat, err := b.conn.zk.Exists(b.path(places[j].node))
			if err == nil && exists && stat.EphemeralOwner == me.session {
				err = b.conn.zk.Delete(b.path(places[j].node), -1)
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		for j := i - 1; j >= 0 && l.before == ""; j-- {
			stands, err := b.stands(places[j].node)
			if err != nil {
				return err
			}
			if stands {
				l.before = places[j].node
			}
		}
		if slices.Contains(children, yieldNode) {
			data, _, err := b.conn.zk.Get(b.path(yieldNode))
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			var y yieldRecord
			_ = json.Unmarshal(data, &y)
			if j := slices.IndexFunc(places, func(p place) bool {
				return y.To != "" && p.guid == guidOf(y.To)
			}); j >= 0 {
				stands, err := b.stands(places[j].node)
				if err != nil {
					return err
				}
				if stands {
					l.keptTo, l.keeper = y.To, places[j].node
				}
			}
		}
		got <- l
		return nil
	})
	if err != nil {
		return line{err: err, node: me.node}
	}
	return <-got
}

// stands tells whether a candidate's node goes with a session. One that does not is a stranger's,
// or a copy: nobody would remove it, and all behind it would wait for that.
func (b *backend) stands(node string) (bool, error) {
	exists, stat, err := b.conn.zk.Exists(b.path(node))
	return exists && err == nil && ephemeral(stat), err
}
