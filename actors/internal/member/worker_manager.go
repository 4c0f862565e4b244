package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// WorkerManager keeps one supervised child per item that this member owns, stops those
// that are to be given up, and releases what has really ended. The rules stand in work_table.go.
type WorkerManager struct {
	*actor.Base
	out         *messages.State[facts.Holdings]
	session     messages.Reader[facts.Session]
	membership  messages.Reader[facts.Membership]
	assignments messages.Reader[facts.Assignments]
	leave       *messages.Mailbox[LeaveOrder, struct{}]
	acks        *messages.Mailbox[AckWrite, struct{}]
	lease       *LeaseEnforcer
	table       *workTable
	records     *WorkRecords

	ladder  *store.Ladder
	again   time.Time // releases and payloads are not asked for before
	changed bool      // since the holdings were published
	more    bool      // items are still to be started or released
	batch   batch
	said    int    // items running, by the log
	under   string // the session under which they ran
}

// NewWorkerManager wires the actor.
func NewWorkerManager(b *actor.Base, out *messages.State[facts.Holdings],
	session messages.Reader[facts.Session], membership messages.Reader[facts.Membership],
	assignments messages.Reader[facts.Assignments],
	leave *messages.Mailbox[LeaveOrder, struct{}], acks *messages.Mailbox[AckWrite, struct{}],
	lease *LeaseEnforcer, records *WorkRecords) *WorkerManager {
	return &WorkerManager{Base: b, out: out, session: session, membership: membership,
		assignments: assignments, leave: leave, acks: acks, lease: lease, table: newWorkTable(),
		records: records, batch: releaseBatch}
}

// Run is the actor: see [supervisor.Child].
func (a *WorkerManager) Run(ctx context.Context) error {
	group := supervisor.Of(ctx)
	session, membership, assignments := a.session.Subscribe(), a.membership.Subscribe(),
		a.assignments.Subscribe()
	a.ladder, a.changed = store.NewLadder(), true
	var timer actor.Timer
	defer timer.Stop()
	var next time.Time
	for {
		removed := group.Removed() // before looking, so that none is missed
		a.collect()
		var err error
		if next, err = a.turn(ctx, group); err != nil {
			return err
		}
		a.tell()
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return a.close(ctx, group)
		case <-removed:
		case <-session.Changed():
			session.Take()
		case <-membership.Changed():
			membership.Take()
		case <-assignments.Changed():
			assignments.Take()
		case <-timer.At(next):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
	}
}

func (a *WorkerManager) snapshot(stop bool) snapshot {
	s := a.session.Get()
	return snapshot{
		now: time.Now(), session: s, member: a.membership.Get(), view: a.assignments.Get(),
		lease: a.Holds(s), stop: stop, keep: a.KeepItems > 0,
		idle: a.Work == nil, soak: a.WorkerSoak, late: a.TTL,
	}
}

// turn decides and carries out; it returns when to look again.
func (a *WorkerManager) turn(ctx context.Context, group *supervisor.Group) (time.Time, error) {
	s := a.snapshot(false)
	d := a.table.decide(s)
	a.stop(s, d.stop)
	if s.now.Before(a.again) {
		d.next = actor.Earliest(d.next, a.again)
	} else {
		call, cancel := a.withinLease(ctx, s)
		more, err := a.consult(call, group, s, d)
		cancel()
		if err != nil {
			return time.Time{}, err
		}
		d.next = actor.Earliest(d.next, more)
	}
	if a.table.active() > 0 {
		now := time.Now()
		d.next = actor.Earliest(d.next, now.Add(untilLook(s.session.Lease.Left(now)-a.LeaseMargin)))
	}
	return d.next, nil
}

// withinLease bounds calls by the moment in which work must be told to stop, as renewals put it
// off: a Consul that does not answer must not keep this actor from doing so.
func (a *WorkerManager) withinLease(ctx context.Context, s snapshot) (context.Context,
	context.CancelFunc) {
	if !s.lease || a.table.active() == 0 {
		return ctx, func() {} // what is still active has been told
	}
	return a.lease.bind(ctx, s.session.ID)
}

// consult does what needs Consul: releases, and the payloads of what is to start or has changed. It
// returns when to go on.
func (a *WorkerManager) consult(ctx context.Context, group *supervisor.Group, s snapshot,
	d decision) (again time.Time, err error) {
	a.more = len(d.release) > a.batch.of(releaseBatch) || len(d.start) > a.batch.of(readBatch)
	asked := d.unreadable != 0 || a.table.vanished && s.registered()
	if asked {
		err = a.complain(ctx, s, d.unreadable)
	}
	for _, step := range []struct {
		ids  []string
		most batch
		do   func(ids []string) error
	}{
		{d.release, releaseBatch, func(ids []string) error { return a.release(ctx, s, ids) }},
		{d.start, readBatch, func(ids []string) error { return a.start(ctx, group, s, ids) }},
		{d.changed, readBatch, func(ids []string) error { return a.changes(ctx, s, ids) }},
	} {
		if len(step.ids) == 0 || err != nil {
			continue
		}
		asked = true
		ids := step.ids[:min(len(step.ids), a.batch.of(step.most))]
		if err = step.do(ids); err == nil && len(ids) < len(step.ids) {
			again = s.now
		}
		if err != nil && ctx.Err() == nil {
			a.batch.failed(len(ids), err)
			a.skip(ids, err)
		}
	}
	return a.settle(ctx, asked, again, err)
}

// settle takes in what came of a turn's requests.
func (a *WorkerManager) settle(ctx context.Context, asked bool, again time.Time, err error) (
	time.Time, error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if asked {
			a.batch.worked()
			a.Store.Succeeded("my work")
			a.ladder.Reset()
		}
	case errors.Is(err, store.ErrRefused):
		a.again = time.Now().Add(a.ladder.NextBackOff())
		return a.again, nil
	case actor.Transient(err), errors.Is(err, store.ErrSessionGone),
		errors.Is(err, messages.ErrAbandoned):
		wait := a.ladder.NextBackOff()
		if errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid) {
			wait = min(wait, nextOthers) // Consul answers: one of them is at fault
		}
		a.Store.Failed("my work", err, wait)
		a.again = time.Now().Add(wait)
		return a.again, nil
	default:
		return again, err
	}
	return again, nil
}

// batch is how many items are asked for at once: fewer after a failure, for one of them may be at
// fault, or their payloads be too large for the way to Consul. Nobody can ask Consul how large they
// are.
type batch int

// The most items of one transaction: of releases as many as it has room for, of payloads as many as
// may be read between two looks at the lease.
const (
	releaseBatch batch = store.MaxOps - 2
	readBatch    batch = 64
)

func (b *batch) of(most batch) int { return int(min(*b, most)) }
func (b *batch) worked()           { *b = min(2**b, releaseBatch) }

func (b *batch) failed(n int, err error) {
	if !errors.Is(err, store.ErrRefused) {
		*b = batch(max(1, n/2))
	}
}

const (
	// skipFor is how long an item is skipped of which Consul did not do what was asked.
	skipFor = 30 * time.Second
	// missingFor is how long an item is skipped that is not in the workload. The leader takes its
	// key back, but not while its brake is on.
	missingFor = 2 * time.Second
	// nextOthers is how soon the other items are asked for then.
	nextOthers = 200 * time.Millisecond
)

// skip leaves an item alone that failed by itself, although Consul answered.
func (a *WorkerManager) skip(ids []string, err error) {
	if len(ids) == 1 && (errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid)) {
		a.table.skipped[ids[0]] = time.Now().Add(skipFor)
	}
}

func (a *WorkerManager) stop(s snapshot, ids []string) {
	for _, id := range ids {
		j := a.table.items[id]
		j.phase, j.since = facts.Stopping, time.Now()
		key, assigned := s.view.Items.Get(id)
		cause := s.stopCause(j, key, assigned)
		j.handle.StopFor(cause)
		a.Log.Debug("work-stopping", "item", id, "grant", j.grant, "cause", string(cause))
	}
	a.changed = a.changed || len(ids) > 0
}

// collect takes in the jobs whose work has really ended.
func (a *WorkerManager) collect() {
	for _, j := range a.table.items {
		if j.phase == facts.Stopped {
			continue
		}
		select {
		case <-j.handle.Done():
			j.phase = facts.Stopped
			a.changed = true
		default:
		}
	}
}

// start reads the payloads of a batch and starts its items. The read is consistent and checks that
// the record is still this session's: views and states may be old, and what they say may have been
// reaped.
func (a *WorkerManager) start(ctx context.Context, group *supervisor.Group, s snapshot,
	ids []string) error {
	ops := make([]store.Op, 0, len(ids)+1)
	ops = append(ops, store.CheckSession(a.Keys.Member(a.ID), s.session.ID))
	for _, id := range ids {
		ops = append(ops, store.GetOrEmpty(a.Keys.WorkItem(id)))
	}
	result, err := a.Store.Txn(ctx, ops...)
	if err != nil {
		return err
	}
	if now := a.snapshot(false); !now.lease || now.session.ID != s.session.ID ||
		now.member.Index != s.member.Index {
		return nil // too much has changed while it was read: the next turn decides anew
	}
	for _, id := range ids {
		e, _ := result.Entry(a.Keys.WorkItem(id))
		if e.CreateIndex == 0 {
			a.table.skipped[id] = time.Now().Add(missingFor)
			continue
		}
		key, _ := s.view.Items.Get(id)
		item := actor.Item{ID: id, Payload: e.Value, Weight: max(1, e.Flags),
			Grant: s.grant(key)}
		changes := newItemChanges(a.OnChange)
		changes.begins(e)
		item.Changes = changes.sent
		payload := changes
		if a.OnChange != actor.KeepOnChange {
			payload = nil
		}
		record := a.records.open(id, key.Restart, payload)
		item.Runs, item.CheckFails = record.runs, record.checkFails
		h, err := group.Start(supervisor.Child{Name: childName(id),
			Run:     a.keep(item, s.session.ID, a.table.runsUnder(id, item.Grant), record, changes),
			Restart: supervisor.Transient, StopTimeout: a.StopTimeout, Backoff: record.backoff})
		if err != nil {
			if errors.Is(err, supervisor.ErrStopped) {
				return nil
			}
			return fmt.Errorf("starting the work on %s: %w", id, err)
		}
		delete(a.table.seen, id)
		a.table.items[id] = &job{phase: facts.Running, grant: item.Grant, session: s.session.ID,
			restart: key.Restart, since: time.Now(), handle: h, changes: changes}
		a.changed = true
		a.Log.Debug("work-started", "item", id, "grant", item.Grant)
	}
	return nil
}

// ManagerName is the name of the child that runs [WorkerManager.Run]. The items are its siblings.
const ManagerName = "worker-manager"

// childName is the name of an item's child: its id. The one item that is called as the manager gets
// a name that no id can have, for none ends in a space.
func childName(id string) string {
	if id == ManagerName {
		return id + " "
	}
	return id
}

// errEnded makes the supervisor's log say why work is started again.
var errEnded = errors.New("the work returned although the item is still owned")

// keep runs the work, with the lease at the most. It returns nil when the lease has ended the work,
// or its grant has no more tokens: then it is not started again, unless this actor finds that it
// may be.
func (a *WorkerManager) keep(item actor.Item, session string, runs *runs,
	record *workRecord, changes *itemChanges) func(context.Context) error {
	begun := false
	return func(ctx context.Context) error {
		bound, free := a.lease.bind(ctx, session)
		defer free()
		if begun {
			item = a.ofNow(bound, item, changes)
		}
		begun = true
		if bound.Err() != nil {
			return nil
		}
		var ok bool
		if item.Token, ok = runs.next(); !ok {
			return nil
		}
		err := a.recorded(bound, item, record)
		switch {
		case leaseEnded(bound):
			a.records.leaseEnds(a.whyEnded(bound), item.Grant)
			return nil
		case err != nil || ctx.Err() != nil:
			return err
		}
		return errEnded
	}
}

// whyEnded is the word of the log for why a context has ended for want of a lease.
func (a *WorkerManager) whyEnded(bound context.Context) string {
	switch {
	case time.Since(a.Store.Woke()) < a.StopTimeout+stopSlack:
		return "was-suspended"
	case errors.Is(context.Cause(bound), actor.StopSessionLost):
		return "session-lost"
	}
	return "lease-over"
}

// recorded runs the work once, and notes when that begins and how it ends by itself.
func (a *WorkerManager) recorded(ctx context.Context, item actor.Item,
	record *workRecord) (err error) {
	record.runs(true)
	exit, fails := "it called runtime.Goexit", true
	defer func() {
		p := recover()
		if p != nil {
			exit = line(fmt.Sprint("it panicked: ", p))
		}
		if ctx.Err() == nil {
			record.ends(exit, fails)
		}
		if p != nil {
			panic(p) // the supervisor names its stack, which is whole here
		}
	}()
	err = hostsOwn(a.Work(ctx, item))
	if exit = "it returned"; err != nil {
		exit, fails = line(err), !interrupted(err)
	}
	return err
}

// ofNow is the item with the payload and the weight that it has now, for work that is called again:
// an operator may have mended them, because it fails. Where they cannot be read it is as they were
// read last. A read that hangs is an actor that does: nobody works on the item meanwhile.
func (a *WorkerManager) ofNow(ctx context.Context, item actor.Item,
	changes *itemChanges) actor.Item {
	_ = a.Tracked(func(ctx context.Context) error {
		e, found, _, err := a.Store.Get(ctx, a.Keys.WorkItem(item.ID), store.Consistent)
		if err == nil && found {
			changes.begins(e)
		} else {
			e = changes.known()
		}
		item.Payload, item.Weight = e.Value, max(1, e.Flags)
		return nil
	})(ctx)
	return item
}

func (a *WorkerManager) tell() {
	if !a.changed {
		return
	}
	a.changed = false
	a.records.keep(func(id string) bool { return a.table.items[id] != nil })
	now := a.table.holdings(a.session.Get().ID)
	// Many items start in batches: said once, when the last of them has.
	if running := now.Running(); running != a.said && !a.more {
		a.say(running, now.Items.Len()-running)
	}
	a.out.Set(now)
}

// say logs how many items run. The most important line there is says that none does because the
// lease is over.
func (a *WorkerManager) say(running, stopping int) {
	s := a.session.Get()
	reason, waits := "", ""
	switch {
	case running > 0:
	case s.ID != a.under, !a.membership.Get().In(s.ID): // the record is seen to go first at times
		reason, waits = "session-lost", "a new session and its registration"
	case !a.Holds(s):
		reason, waits = "lease-over", "a renewal of the session that Consul confirms"
	}
	if reason == "" {
		a.Log.Info("work-changed", "running", running, "were", a.said, "stopping", stopping)
	} else {
		a.Log.Warn("work-stopped", "reason", reason, "items", a.said, "stopping", stopping,
			"waits_for", waits)
	}
	a.said, a.under = running, s.ID
}

// close is the member's hand-over: the supervisor has told every child to stop; the record is
// marked so that the leader hands nothing more, and each item is released as its work ends (with
// KeepItems only those that the leader has called back). What does not end in time is not released.
func (a *WorkerManager) close(ctx context.Context, group *supervisor.Group) error {
	call, cancel := actor.Cleanup(ctx, a.StopTimeout+2*time.Second)
	defer cancel()
	reachable := a.mark(call)
	a.more = false
	for {
		removed := group.Removed()
		a.collect()
		s := a.snapshot(true)
		d := a.table.decide(s)
		a.stop(s, d.stop)
		progress := false
		if reachable && len(d.release) > 0 {
			ids := d.release[:min(len(d.release), a.batch.of(releaseBatch))]
			err := a.LastCall(call, func(ctx context.Context) error {
				return a.release(ctx, s, ids)
			})
			progress = err == nil
			reachable = progress || errors.Is(err, store.ErrRefused)
		}
		a.tell()
		if progress {
			continue
		}
		if a.table.active() == 0 {
			return nil
		}
		select {
		case <-removed:
		case <-call.Done():
			a.Log.Error("work-still-running", "items", a.table.active(), "then",
				"they are not released")
			return nil
		}
	}
}

func (a *WorkerManager) mark(ctx context.Context) bool {
	if !a.membership.Get().In(a.session.Get().ID) || !a.Holds(a.session.Get()) {
		return false
	}
	if a.KeepItems > 0 {
		return true // what it is handed meanwhile waits for it as well
	}
	if err := a.LastCall(ctx, func(ctx context.Context) error {
		_, err := a.leave.Call(ctx, LeaveOrder{})
		return err
	}); err != nil {
		a.Log.Warn("not-marked-as-leaving", "err", err)
		return false
	}
	return true
}

// release gives items up whose work has ended: the keys go and the ack rises in one transaction,
// under the condition that the record is still this session's. One whose outcome is unknown is sent
// again: deleting a deleted key succeeds, and a key that was made anew has another index.
func (a *WorkerManager) release(ctx context.Context, s snapshot, ids []string) error {
	var ops []store.Op
	for _, id := range ids {
		key, _ := s.view.Items.Get(id)
		r := a.table.released[id]
		r.grant = max(r.grant, s.grant(key))
		if j := a.table.items[id]; j != nil {
			r.grant = max(r.grant, j.grant)
		}
		a.table.released[id] = r
		ops = append(ops, store.DeleteCAS(a.Keys.Assignment(a.ID, id), key.ModifyIndex))
	}
	_, err := a.acks.Call(ctx, AckWrite{Session: s.session.ID, Ops: ops})
	if r, ok := errors.AsType[*store.RefusedError](err); ok && r.Op >= 1 && r.Op <= len(ids) {
		// The leader has written that key since: its new version is on the way.
		x := a.table.released[ids[r.Op-1]]
		x.after, x.at = s.view.Index, time.Now()
		a.table.released[ids[r.Op-1]] = x
		if others := slices.Delete(slices.Clone(ids), r.Op-1, r.Op); len(others) > 0 {
			return errors.Join(a.release(ctx, s, others), err)
		}
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		key, _ := s.view.Items.Get(id)
		a.table.released[id] = release{grant: a.table.released[id].grant, index: key.ModifyIndex,
			at: time.Now()}
		delete(a.table.items, id)
	}
	a.changed = true
	a.Log.Debug("released", "items", len(ids))
	return nil
}

// complain raises the ack because of a key that somebody else wrote over or took away: the leader,
// which does not watch the assignments, reads them again and writes it anew.
func (a *WorkerManager) complain(ctx context.Context, s snapshot, index uint64) error {
	_, err := a.acks.Call(ctx, AckWrite{Session: s.session.ID})
	if err == nil {
		a.table.told, a.table.vanished = max(a.table.told, index), false
	}
	return err
}
