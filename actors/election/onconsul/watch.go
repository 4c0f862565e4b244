package onconsul

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/store"
)

// When the leadership is free, the first candidate of the queue takes it at once. Each other
// candidate waits half a second for every candidate before it, because those may be dead.
const (
	turnDelay = 500 * time.Millisecond
	// No candidate waits for more than maxTurnDelays others. A candidate behind them reads the
	// queue again only after farDelay: by then the next one leads as a rule. If those before it
	// have gone it has to take before the one behind it does, whose turn is after turnDelay.
	maxTurnDelays = 8
	farDelay      = turnDelay / 2
	unknownPlace  = -1
	// emptyPause is how long a follower waits between two polls of an election that does not exist.
	// Every write elsewhere in the store ends such a poll.
	emptyPause = time.Second
	// holdBackPause is how long whoever holds back waits between two looks at the queue; so much
	// longer again for each maxTurnDelays others that are before it.
	holdBackPause = time.Second
	// ownPause is for a transaction of this participant.
	ownPause = 20 * time.Millisecond
)

// watcher makes views of the answers of the poll and of its own reads. It belongs to one goroutine.
type watcher struct {
	*backend
	publish func(election.View)

	ready       bool     // state/ was read at least once
	now         snapshot // the newest
	knownOps    int      // how many of the candidate's ops now takes into account
	err         error    // why nothing newer could be read; nil: it could
	incarnation uint64   // of the first election seen; used while this is no candidate
	wasLeader   bool     // the last view said that this candidate leads

	vacantSince     time.Time // since when nobody leads; zero: somebody leads
	place           int       // in the queue as it was last read
	queue           []election.Candidate
	queueRead       time.Time // when the queue was read
	queueFresh      bool      // the place is known for the time in which the leadership is free
	looked          time.Time // when it last asked itself whether to read the queue
	queueOrder      uint64    // snapshot.order when the queue was read
	queueRepaired   int       // candidacy.repaired then
	announced       bool      // whoever comes after this candidate has been told to read the queue
	checkedHandOver uint64    // index of the hand-over order that was checked last
	handOverVoid    bool      // that order names nobody who could lead

	last      election.View
	published bool // last was published
}

// polled is an answer of the poll, or its error.
type polled struct {
	snapshot
	err   error
	since time.Time // of the first error in a row
}

func (b *backend) Watch(ctx context.Context, publish func(election.View)) {
	done, err := b.conn.countElection()
	if err != nil {
		publish(election.View{Err: err})
		<-ctx.Done()
		return
	}
	defer done()
	w := &watcher{backend: b, publish: publish, place: unknownPlace}
	answers, goOn := make(chan polled), make(chan time.Duration)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		contained.Run(b.conn.log, "the poll of election "+b.name, func() error {
			b.poll(ctx, answers, goOn)
			return nil
		}, func(error) { cancel() }) // a watch that sees nothing any more is over
	})
	ladder := store.NewLadder()
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	var again time.Time // when to repeat a read that failed; zero: none failed
	for {
		err, answered := error(nil), false
		select {
		case <-ctx.Done():
			return
		case <-b.wakeWatch:
			err = w.read(ctx)
		case p := <-answers:
			err, answered = w.takePoll(ctx, p), true
		case <-timer.C:
			if !again.IsZero() && !time.Now().Before(again) {
				again = time.Time{}
				err = w.read(ctx)
			}
		}
		if err == nil {
			err = w.findPlace(ctx)
		}
		if err == nil {
			err = w.checkHandOver(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			ladder.Reset()
			b.conn.store.Succeeded("election " + b.name)
		default:
			wait := ladder.NextBackOff()
			b.conn.store.Failed("election "+b.name, err, wait)
			again = time.Now().Add(wait)
		}
		next := w.view(ctx)
		if answered {
			select {
			case goOn <- w.pollPause():
			case <-ctx.Done():
			}
		}
		if !again.IsZero() && (next.IsZero() || again.Before(next)) {
			next = again
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(0, time.Until(next)))
		}
	}
}

// pollPause is how long the next poll waits at the most. A participant that is about to take the
// leadership, or leaves, polls later: its own write would end the poll at once, and Consul is free
// for that write.
func (w *watcher) pollPause() time.Duration {
	switch {
	case w.candidacy().leaving:
		return time.Second
	case w.published && w.last.Turn:
		return ownPause
	}
	return 0
}

// poll sends every change of state/ to answers until ctx ends. After each it waits for as long as
// goOn says.
func (b *backend) poll(ctx context.Context, answers chan<- polled, goOn <-chan time.Duration) {
	tell := func(p polled) {
		select {
		case <-b.wakePoll: // of what was done before
		default:
		}
		select {
		case answers <- p:
		case <-ctx.Done():
			return
		}
		select {
		case d := <-goOn:
			if d > 0 {
				b.pause(ctx, d)
			}
		case <-ctx.Done():
		}
	}
	watch := b.conn.store.WatchPrefix(b.keys.state())
	var since time.Time
	next := func(poll context.Context) (store.View, error) {
		v, err := watch.Next(poll)
		if err != nil && poll.Err() == nil {
			if since.IsZero() {
				since = time.Now()
			}
			tell(polled{err: err, since: since})
		}
		return v, err
	}
	for v := range watch.Views(ctx, "watch of election "+b.name, &b.conn.polls, next) {
		since = time.Time{}
		tell(polled{snapshot: b.keys.parse(v.Entries, v.Index)})
		if len(v.Entries) == 0 && b.candidacy().session == "" {
			b.pause(ctx, emptyPause)
		}
	}
}

// pause waits for d, or until this participant has done something.
func (b *backend) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.wakePoll:
	case <-ctx.Done():
	}
}

// takePoll takes an answer of the poll. An answer older than the newest snapshot comes from a
// server that lags, or from a Consul that was restored. A consistent read tells which.
func (w *watcher) takePoll(ctx context.Context, p polled) error {
	switch {
	case p.err != nil:
		if !w.ready || time.Since(p.since) >= w.conn.cfg.TTL {
			w.err = p.err
		}
		return nil
	case w.ready && p.index < w.now.index:
		return w.read(ctx)
	}
	w.accept(p.snapshot, w.knownOps)
	return nil
}

// read reads state/ consistently. The answer takes into account all that this participant has done
// before.
func (w *watcher) read(ctx context.Context) error {
	ops := w.candidacy().ops
	entries, index, err := w.conn.store.List(ctx, w.keys.state(), store.Consistent)
	if err != nil {
		return err
	}
	w.accept(w.keys.parse(entries, index), ops)
	return nil
}

func (w *watcher) accept(s snapshot, known int) {
	w.ready, w.now, w.knownOps, w.err = true, s, known, nil
	w.mu.Lock()
	w.noteTerm(s)
	w.mu.Unlock()
	if !w.candidacy().owns(s.leader) {
		w.noteOthers(known)
	}
	if w.incarnation == 0 {
		w.incarnation = s.incarnation
	}
	switch {
	case !s.vacant():
		w.vacantSince, w.queueFresh = time.Time{}, false
	case w.vacantSince.IsZero():
		w.vacantSince = time.Now()
	}
}

// findPlace reads the queue when this candidate has to know its place: once after joining, again
// when the leadership is free, and once more when the lock-delay of a lost leader is over: those
// who were lost with that leader are out of the queue by then. It is not read again if this
// candidate is known to be the next. Only candidates near the front read at once; the others wait
// farDelay.
func (w *watcher) findPlace(ctx context.Context) error {
	m := w.candidacy()
	w.looked = time.Now()
	if m.session == "" || !w.ready || w.now.ended != nil || m.leaving {
		return nil
	}
	if at := w.againAt(m); !at.IsZero() && !w.looked.Before(at) {
		w.queueFresh = false
	}
	free := !w.vacantSince.IsZero() && !w.queueFresh
	if free && w.isNext(m) {
		w.place, w.queueFresh = 0, true
		return nil
	}
	asked := free && (w.place < maxTurnDelays || !w.looked.Before(w.farAt(m)))
	if w.place != unknownPlace && m.repaired == w.queueRepaired && !asked {
		return nil
	}
	order, read := w.now.order, time.Now()
	entries, _, err := w.conn.store.List(ctx, w.keys.candidates(), store.Consistent)
	if err != nil {
		return err
	}
	w.queue, w.queueOrder, w.queueRead = w.keys.queue(entries), order, read
	if m.repaired != w.queueRepaired {
		w.queueRepaired, w.announced = m.repaired, false
	}
	if err := w.announce(ctx, m); err != nil {
		return err
	}
	w.queueFresh = !w.vacantSince.IsZero()
	w.place = slices.IndexFunc(w.queue, func(c election.Candidate) bool { return c.ID == m.ID })
	if w.place < 0 {
		w.place = len(w.queue) // its record is gone; Take creates it again
	}
	return nil
}

// againAt returns when the queue is to be read again although the leadership is still free; zero:
// never. Whoever is far back reads it for the first time. Whoever holds back for the candidate of a
// hand-over looks whether it is one still. A place behind others is no longer good when the
// lock-delay that the last leader has left is over.
func (w *watcher) againAt(m candidacy) time.Time {
	switch far := w.farAt(m); {
	case m.leaving:
	case !w.queueFresh:
		if far.After(w.looked) {
			return far
		} // else the read has failed, and is tried again
	case w.awaits(m):
		return w.queueRead.Add(holdBackPause * time.Duration(1+max(0, w.place)/maxTurnDelays))
	case w.place <= 0, !w.queueRead.Before(m.takeFrom):
	case w.place >= maxTurnDelays: // those in front go first
		return far
	default:
		return m.takeFrom
	}
	return time.Time{}
}

// freeFrom returns from when on the free leadership may be taken.
func (w *watcher) freeFrom(m candidacy) time.Time {
	if m.takeFrom.After(w.vacantSince) {
		return m.takeFrom // the last leader did not release
	}
	return w.vacantSince
}

// farAt returns when whoever is far back reads the queue.
func (w *watcher) farAt(m candidacy) time.Time { return w.freeFrom(m).Add(farDelay) }

// awaits tells whether there is an order to hand over to another one in the queue.
func (w *watcher) awaits(m candidacy) bool {
	o := w.now.handOver
	to := func(c election.Candidate) bool { return c.ID == o.To }
	return o != nil && o.To != m.ID && slices.ContainsFunc(w.queue, to)
}

// isNext tells whether this candidate is the next to lead, by the queue that was read before the
// leader gave its leadership up. A candidate that has come since is behind, or it has announced
// itself. A candidate before this one may have gone: then isNext is false, and the queue is read
// again.
func (w *watcher) isNext(m candidacy) bool {
	s := w.now
	if w.place == unknownPlace || s.order != w.queueOrder || m.repaired != w.queueRepaired ||
		s.lastTerm.LockDelay != 0 {
		return false
	}
	if s.handOver != nil {
		return s.handOver.To == m.ID
	}
	for _, c := range w.queue {
		if c.ID != s.lastTerm.ID {
			return c.ID == m.ID
		}
	}
	return false
}

// announce makes the others read the queue again if this candidate has come in before some of them,
// by its priority. It does so once this candidate is in the queue: whoever reads the queue later
// finds it there. A candidate at the end of the queue wakes nobody.
func (w *watcher) announce(ctx context.Context, m candidacy) error {
	i := slices.IndexFunc(w.queue, func(c election.Candidate) bool { return c.ID == m.ID })
	if w.announced || i < 0 {
		return nil
	}
	before := func(c election.Candidate) bool { return c.Priority < m.Priority }
	if slices.ContainsFunc(w.queue[i:], before) {
		_, err := w.conn.store.Txn(ctx, store.CheckIndex(w.keys.candidate(m.ID), m.record),
			store.CAS(w.keys.order(), []byte(rand.Text()), 0, w.now.order))
		if errors.Is(err, store.ErrRefused) {
			err = errors.Join(err, w.read(ctx)) // and it is tried again
		}
		if err != nil {
			return err
		}
	}
	w.announced = true
	return nil
}

// checkHandOver finds out whether the candidate of a hand-over order can lead. It removes an order
// that names nobody who can, because candidates that preempt wait until an order is carried out.
// Only the leader asks.
func (w *watcher) checkHandOver(ctx context.Context) error {
	o := w.now.handOver
	if o == nil || w.now.handOverIndex == w.checkedHandOver || !w.candidacy().owns(w.now.leader) {
		return nil
	}
	e, found, _, err := w.conn.store.Get(ctx, w.keys.candidate(o.To), store.Consistent)
	if errors.Is(err, store.ErrInvalid) {
		found, err = false, nil // a stranger's order with an impossible id
	}
	void := !found || e.Session == ""
	if err == nil && void {
		_, err = w.conn.store.Txn(ctx, store.CheckIndex(w.keys.handover(), w.now.handOverIndex),
			store.Delete(w.keys.handover()))
		if errors.Is(err, store.ErrRefused) {
			err = nil // there is a newer order, or none any more
		}
	}
	if err == nil {
		w.checkedHandOver, w.handOverVoid = w.now.handOverIndex, void
	}
	return err
}

// view publishes the view if it is new. It returns when the view may change by itself; zero: never.
func (w *watcher) view(ctx context.Context) (next time.Time) {
	if !w.ready {
		if v := (election.View{Ops: -1, Err: w.err}); w.err != nil && (!w.published ||
			!same(v, w.last)) {
			w.publish(v)
			w.published, w.last = true, v
		}
		return time.Time{}
	}
	m, s := w.candidacy(), w.now
	v := election.View{Ops: w.knownOps, Leader: s.currentLeader(), Token: s.leader.CreateIndex,
		Mine: m.owns(s.leader), Err: w.err}
	if s.vacant() {
		v.Token = 0
	}
	if s.handOver != nil && !s.vacant() && !(v.Mine && (s.handOverIndex != w.checkedHandOver ||
		w.handOverVoid)) {
		v.Yield = s.handOver.To
	}
	incarnation := w.incarnation
	if m.session != "" {
		incarnation = m.incarnation
	}
	switch {
	case s.ended != nil && s.ended.Deleted:
		v.Deleted, v.Why = true, "it is being deleted"
	case s.ended != nil:
		v.Ended, v.Why = true, "it was ended for everyone at "+s.ended.At.Format(time.RFC3339)
	case incarnation != 0 && s.incarnation != incarnation && w.knownOps >= m.ops:
		v.Deleted, v.Why = true, "its keys are gone"
	case m.session != "" && s.vacant():
		var at time.Time
		if at = w.turnAt(m); !at.After(time.Now()) {
			v.Turn = true
		} else if next = at; !w.againAt(m).IsZero() {
			next = earlier(at, w.againAt(m))
		}
	}
	if !v.Mine && w.wasLeader && m.token != 0 && !m.leaving && !m.releasing {
		// The leadership is lost, most likely with the session. Then the lost session is the reason
		// to report. One that gives it up knows why, and its successor has all of Consul's
		// attention.
		w.conn.verify(ctx)
	}
	w.wasLeader = v.Mine
	if !w.published || !same(v, w.last) {
		w.publish(v)
		w.published, w.last = true, v
	}
	return next
}

// turnAt returns when this candidate may take the free leadership.
func (w *watcher) turnAt(m candidacy) time.Time {
	start := w.freeFrom(m)
	if o := w.now.handOver; o != nil && o.To != "" {
		if o.To == m.ID {
			return start
		}
		if !w.queueFresh || w.awaits(m) {
			start = start.Add(min(max(o.HoldBack, 0), election.MaxHoldBack))
		}
	}
	if !w.queueFresh { // this candidate is far back: those in front go first
		return start.Add(turnDelay)
	}
	return start.Add(time.Duration(min(w.place, maxTurnDelays)) * turnDelay)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// same tells whether two views say the same.
func same(a, b election.View) bool {
	errA, errB := a.Err, b.Err
	a.Err, b.Err = nil, nil
	return a == b && (errA == nil) == (errB == nil) && (errA == nil || errors.Is(errA, errB) ||
		fmt.Sprint(errA) == fmt.Sprint(errB))
}
