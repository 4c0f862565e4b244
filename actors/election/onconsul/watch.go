package onconsul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/store"
)

// How candidates line up when the leadership is free. The first in the line goes at once; each
// other one gives those before it, who may be dead, half a second.
const (
	patience = 500 * time.Millisecond
	// further back in the line the wait is no longer, and the line is read again only after it
	mostPlaces  = 8
	unknownRank = -1
	// emptyPause is how long a follower waits between two polls of an election that does not exist:
	// every write beside it wakes them.
	emptyPause = time.Second
)

// lookout is the one goroutine that makes views of what the poll and the reads bring.
type lookout struct {
	*backend
	publish func(election.View)

	seen   bool
	now    snapshot
	known  int // ops that now takes into account
	err    error
	anchor uint64 // of the election that is watched, when this is no candidate
	was    bool   // this candidate's leadership was in the last view

	since  time.Time // the leadership is free; zero: it is not
	rank   int       // in the line, when it was read last
	line   []election.Candidate
	fresh  bool   // the line was read since the leadership is free
	judged uint64 // the version of the order to hand over that was looked at
	void   bool   // it names nobody who could lead

	last election.View
	told bool
}

// polled is an answer of the poll, or why there is none.
type polled struct {
	snapshot
	err   error
	since time.Time // of the first error in a row
}

func (b *backend) Watch(ctx context.Context, publish func(election.View)) {
	done, err := b.conn.admit()
	if err != nil {
		publish(election.View{Err: err})
		<-ctx.Done()
		return
	}
	defer done()
	l := &lookout{backend: b, publish: publish, rank: unknownRank}
	answers := make(chan polled)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { b.poll(ctx, answers) })
	ladder := store.NewLadder()
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	var again time.Time // a read that failed
	for {
		err := error(nil)
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
			err = l.read(ctx)
		case p := <-answers:
			err = l.take(ctx, p)
		case <-timer.C:
			if !again.IsZero() && !time.Now().Before(again) {
				again = time.Time{}
				err = l.read(ctx)
			}
		}
		if err == nil {
			err = l.lineUp(ctx)
		}
		if err == nil {
			err = l.judge(ctx)
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
		next := l.view(ctx)
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

// poll follows state/ and never ends before ctx.
func (b *backend) poll(ctx context.Context, answers chan<- polled) {
	tell := func(p polled) {
		select {
		case answers <- p:
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
		if len(v.Entries) == 0 && b.me().session == "" {
			b.pause(ctx, emptyPause)
		}
	}
}

// pause waits until this participant has done something, for d at most.
func (b *backend) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.stir:
	case <-ctx.Done():
	}
}

// take looks at an answer of the poll. One that is older than what was seen already comes from a
// server that lags, or from a Consul that was restored: a consistent read tells.
func (l *lookout) take(ctx context.Context, p polled) error {
	switch {
	case p.err != nil:
		if !l.seen || time.Since(p.since) >= l.conn.cfg.TTL {
			l.err = p.err
		}
		return nil
	case l.seen && p.index < l.now.index:
		return l.read(ctx)
	}
	l.accept(p.snapshot, l.known)
	return nil
}

// read reads state/ consistently: what this participant has done before is in the answer.
func (l *lookout) read(ctx context.Context) error {
	ops := l.me().ops
	entries, index, err := l.conn.store.List(ctx, l.keys.state(), store.Consistent)
	if err != nil {
		return err
	}
	l.accept(l.keys.parse(entries, index), ops)
	return nil
}

func (l *lookout) accept(s snapshot, known int) {
	l.seen, l.now, l.known, l.err = true, s, known, nil
	l.mu.Lock()
	l.sawTerm(s)
	l.mu.Unlock()
	if l.anchor == 0 {
		l.anchor = s.anchor
	}
	switch {
	case !s.vacant():
		l.since, l.fresh = time.Time{}, false
	case l.since.IsZero():
		l.since = time.Now()
	}
}

// lineUp reads the line of candidates when this one has to know its place: when it has joined, and
// when the leadership is free and it was among the first, or those have had their time.
func (l *lookout) lineUp(ctx context.Context) error {
	m := l.me()
	if m.session == "" || !l.seen || l.now.ended != nil {
		return nil
	}
	free := !l.since.IsZero() && !l.fresh
	if l.rank != unknownRank && !(free && (l.rank < mostPlaces ||
		time.Since(l.since) >= patience)) {
		return nil
	}
	entries, _, err := l.conn.store.List(ctx, l.keys.candidates(), store.Consistent)
	if err != nil {
		return err
	}
	l.line = l.keys.line(entries)
	l.fresh = !l.since.IsZero()
	l.rank = slices.IndexFunc(l.line, func(c election.Candidate) bool { return c.ID == m.ID })
	if l.rank < 0 {
		l.rank = len(l.line) // its record is gone: Take makes it anew
	}
	return nil
}

// judge looks, when this candidate leads and is to make way, whether the other one can lead.
func (l *lookout) judge(ctx context.Context) error {
	o := l.now.order
	if o == nil || l.now.orders == l.judged || !l.me().owns(l.now.leader) {
		return nil
	}
	e, found, _, err := l.conn.store.Get(ctx, l.keys.candidate(o.To), store.Consistent)
	if errors.Is(err, store.ErrInvalid) {
		found, err = false, nil // a stranger's order, of an id that cannot be
	}
	if err == nil {
		l.judged, l.void = l.now.orders, !found || e.Session == ""
	}
	return err
}

// view publishes what is to be seen now, and returns when that may change by itself.
func (l *lookout) view(ctx context.Context) (next time.Time) {
	if !l.seen {
		if v := (election.View{Ops: -1, Err: l.err}); l.err != nil && (!l.told ||
			!same(v, l.last)) {
			l.publish(v)
			l.told, l.last = true, v
		}
		return time.Time{}
	}
	m, s := l.me(), l.now
	v := election.View{Ops: l.known, Leader: s.leads(), Token: s.leader.CreateIndex,
		Mine: m.owns(s.leader), Err: l.err}
	if s.vacant() {
		v.Token = 0
	}
	if s.order != nil && !s.vacant() && !(v.Mine && (s.orders != l.judged || l.void)) {
		v.Yield = s.order.To
	}
	anchor := l.anchor
	if m.session != "" {
		anchor = m.anchor
	}
	switch {
	case s.ended != nil && s.ended.Deleted:
		v.Deleted, v.Why = true, "it is being deleted"
	case s.ended != nil:
		v.Ended, v.Why = true, "it was ended for everyone at "+s.ended.At.Format(time.RFC3339)
	case anchor != 0 && s.anchor != anchor && l.known >= m.ops:
		v.Deleted, v.Why = true, "its keys are gone"
	case m.session != "" && s.vacant():
		var at time.Time
		if at = l.turn(m); !at.After(time.Now()) {
			v.Turn = true
		} else {
			next = at
		}
	}
	if !v.Mine && l.was && m.token != 0 {
		// Lost, and most likely with its session: then that is the reason to be told.
		l.conn.verify(ctx)
	}
	l.was = v.Mine
	if !l.told || !same(v, l.last) {
		l.publish(v)
		l.told, l.last = true, v
	}
	return next
}

// turn is when this candidate may take the leadership that is free.
func (l *lookout) turn(m me) time.Time {
	start := l.since
	if m.free.After(start) {
		start = m.free // after a leader that did not give the leadership up
	}
	if o := l.now.order; o != nil && o.To != "" {
		if o.To == m.ID {
			return start
		}
		stands := slices.ContainsFunc(l.line, func(c election.Candidate) bool {
			return c.ID == o.To
		})
		if !l.fresh || stands {
			start = start.Add(min(max(o.HoldBack, 0), time.Minute))
		}
	}
	if !l.fresh { // far back in the line: those in front have their time first
		return start.Add(patience)
	}
	return start.Add(time.Duration(min(l.rank, mostPlaces)) * patience)
}

// same tells whether a view says nothing new.
func same(a, b election.View) bool {
	errA, errB := a.Err, b.Err
	a.Err, b.Err = nil, nil
	return a == b && (errA == nil) == (errB == nil) && (errA == nil || errors.Is(errA, errB) ||
		fmt.Sprint(errA) == fmt.Sprint(errB))
}
