package member

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// StatePublisher writes what the work of this member's items does into the member's summary, for
// people. The leader reads there which work fails too often: until that is written, it takes none
// of it away.
type StatePublisher struct {
	*actor.Base
	session     messages.Reader[facts.Session]
	membership  messages.Reader[facts.Membership]
	assignments messages.Reader[facts.Assignments]
	holdings    messages.Reader[facts.Holdings]
	records     *WorkRecords
	acks        *messages.Mailbox[AckWrite, struct{}]
	behind      *messages.State[time.Time] // since when what Consul has is not what is so

	written protocol.WorkSummary // as it was written last
	at      time.Time            // when
	index   uint64               // of the key then
	known   bool                 // index and written are what Consul has
	news    time.Time            // since when there is something else to say
	since   map[string]time.Time
	again   time.Time // when to try again what has failed
	look    time.Time // when to look whether Consul has what was written
	ladder  *store.Ladder
	told    []overItem // that the summary names, and the leader was woken for
}

// NewStatePublisher wires the actor.
func NewStatePublisher(b *actor.Base, session messages.Reader[facts.Session],
	membership messages.Reader[facts.Membership],
	assignments messages.Reader[facts.Assignments],
	holdings messages.Reader[facts.Holdings], records *WorkRecords,
	acks *messages.Mailbox[AckWrite, struct{}], behind *messages.State[time.Time]) *StatePublisher {
	return &StatePublisher{Base: b, session: session, membership: membership, behind: behind,
		assignments: assignments, holdings: holdings, records: records, acks: acks,
		since: map[string]time.Time{}, ladder: store.NewLadder()}
}

// A summary is written when it says something new, after statesSettle, for what begins within a
// second needs no words; one in statesEvery at the most.
const (
	statesSettle = time.Second
	statesEvery  = 2 * time.Second
	// statesLook is how often a member looks whether Consul has what it has written last.
	statesLook = time.Minute
)

// Run is the actor: see [supervisor.Child].
func (a *StatePublisher) Run(ctx context.Context) error {
	session, membership := a.session.Subscribe(), a.membership.Subscribe()
	assignments, holdings := a.assignments.Subscribe(), a.holdings.Subscribe()
	records := a.records.changed.Subscribe()
	a.known = false
	var timer actor.Timer
	defer timer.Stop()
	var next time.Time
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			session.Take()
		case <-membership.Changed():
			membership.Take()
		case <-assignments.Changed():
			assignments.Take()
		case <-holdings.Changed():
			holdings.Take()
		case <-records.Changed():
			records.Take()
		case <-timer.At(next):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		next = a.step(ctx, time.Now())
		supervisor.Ready(ctx)
	}
}

// step writes the summary if that is due, and returns when to look again.
func (a *StatePublisher) step(ctx context.Context, now time.Time) (next time.Time) {
	s, m, view := a.session.Get(), a.membership.Get(), a.assignments.Get()
	if !m.In(s.ID) || view.Index < m.Index {
		return time.Time{} // the states tell when that is over
	}
	anew := a.written.Session != s.ID // readers know nothing of this session's work
	if !anew && a.news.After(now) || a.again.After(now) {
		return actor.Latest(a.news, a.again)
	}
	want, next := summarise(summaryInput{now: now, member: m, view: view, stop: a.StopTimeout,
		holdings: a.holdings.Get(), record: a.records.get, since: a.since,
		ended: a.records.leaseEnd()})
	if same(want, a.written) {
		a.news = time.Time{}
		if !a.look.After(now) {
			a.compare(ctx, now)
		}
		return actor.Earliest(next, a.look)
	}
	if a.news.IsZero() && !anew {
		a.news = actor.Latest(now.Add(statesSettle), a.at.Add(statesEvery))
		return a.news
	}
	a.news = time.Time{}
	if err := a.write(ctx, want, now); err != nil {
		a.again = now.Add(max(a.ladder.NextBackOff(), statesEvery))
		a.forget()
		a.Log.Debug("states-not-published", "err", err, "retry_in", a.again.Sub(now).String())
		return a.again
	}
	a.ladder.Reset()
	a.look = now.Add(statesLook)
	if !a.behind.Get().IsZero() {
		a.behind.Set(time.Time{})
	}
	return actor.Earliest(next, a.look)
}

// forget has the summary written anew: what Consul has may be another one, as after an answer that
// was lost.
func (a *StatePublisher) forget() {
	a.known, a.written = false, protocol.WorkSummary{Seq: a.written.Seq}
	if a.behind.Get().IsZero() {
		a.behind.Set(time.Now())
	}
}

// compare looks whether Consul has what was written last: somebody may have written over it, and
// Consul may have been restored from before.
func (a *StatePublisher) compare(ctx context.Context, now time.Time) {
	a.look = now.Add(statesLook)
	e, _, _, err := a.Store.Get(ctx, a.Keys.State(a.ID), store.Default)
	if err == nil && (!a.known || e.ModifyIndex != a.index) {
		a.forget()
		a.look = now
	}
}

// write writes the summary, if the record is still the session's, over the version that is known:
// so neither a second copy of the request nor one that arrives late takes a newer one back.
//
// Where it names other work that has failed too often than before, the ack goes with it, so that the
// leader reads it.
func (a *StatePublisher) write(ctx context.Context, s protocol.WorkSummary, now time.Time) error {
	key := a.Keys.State(a.ID)
	if !a.known {
		e, _, _, err := a.Store.Get(ctx, key, store.Consistent)
		if err != nil {
			return err
		}
		a.index, a.known = e.ModifyIndex, true
		old, ok, _ := a.Keys.ReadWorkSummary(e)
		if !ok || old.Seq < a.written.Seq {
			a.told = nil // Consul was restored, perhaps from before the leader was told
		}
		if ok {
			a.written.Seq = max(a.written.Seq, old.Seq)
		}
	}
	s.Seq, s.At = a.written.Seq+1, now.UTC()
	fails, put := over(s), store.CAS(key, s.Encode(), 0, a.index)
	if slices.Equal(fails, a.told) {
		r, err := a.Store.Txn(ctx, store.CheckSession(a.Keys.Member(a.ID), s.Session), put)
		if err != nil {
			a.known = false
			return err
		}
		e, _ := r.Entry(key)
		a.written, a.at, a.index = s, now, e.ModifyIndex
		return nil
	}
	a.known = false // the next write reads what this one has made of the key
	failing := len(fails) > 0
	_, err := a.acks.Call(ctx, AckWrite{Session: s.Session, Ops: []store.Op{put},
		Failing: &failing})
	if err == nil {
		a.written, a.at, a.told = s, now, fails
	}
	return err
}
