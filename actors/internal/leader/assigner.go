package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// Assigner shares the workload out for one term: it reads the assignments once,
// drafts what is to be done from the watchers' states, writes it behind the
// guard, takes the outcome into its cache and waits for the next change.
//
// It writes one draft at a time and knows each outcome before the next. Where it
// does not, it takes a new epoch and reads everything anew: the write may still
// arrive, and only the new epoch makes Consul refuse it.
type Assigner struct {
	*actor.Base
	term       uint64
	leadership messages.Reader[messages.Leadership]
	members    messages.Reader[messages.Members]
	acks       messages.Reader[messages.Acks]
	workload   messages.Reader[messages.Workload]
	control    messages.Reader[messages.Control]
	bump       *messages.Mailbox[messages.Bump, messages.Leadership]
	out        *messages.State[messages.Plan]

	epoch     uint64
	session   string        // that holds the leader key
	writer    *store.Writer // of this epoch
	assigned  *assignmentCache
	readAt    map[string]uint64 // the ack with which a member's keys were read last
	absent    map[string]absence
	apart     map[string]*apart          // orders that were in vain, by their assignment keys
	notes     map[string]note            // of items whose work has failed, by item
	failing   map[string][]report        // what members say of such work, by member
	resets    int                        // of Consul, that absences were begun anew for
	inherited bool                       // what the last leader has noted was read
	handed    map[string]protocol.Waited // by it
	// noted is the leader state as it was read or written last, by its index; notedKnown: that is
	// so.
	noted      protocol.LeaderState
	notedIndex uint64
	notedKnown bool
	notedAt    time.Time
	noting     aside // a note that was in vain
	noteFailed int   // how often it could not be read
	index      map[string]int32
	indexOf    uint64 // the workload that index was made of
	build      *unitBuilder
	events     *eventLog
	odd        protocol.StrangeKeys
	ladder     *store.Ladder
	foreign    map[string]*aside // sessions that have locked records of several members
	asideAt    time.Time         // when it was said last that something is left aside
	again      time.Time         // not to be drafted before: something was refused
	quiet      time.Time         // the last change of members, workload or orders
	heeded     [3]uint64         // their indexes then
	first      time.Time         // the first change that has not been drafted with placing yet
	sentinelAt uint64            // index of the last empty workload that got its sentinel
	brakeText  string
	brakeAt    time.Time
	overridden overridden
	// when the override was given that the last draft has taken in
	overrideSeen time.Time
	sizes        sizes                // of the workload
	placed       map[string]time.Time // when each item was, that may not be moved for balance yet
	moves        map[string]int
	releases     map[string]time.Time // see snapshot
	ledger       movesLedger          // for the observer
	settled      bool
}

// NewAssigner wires the actor for one term.
func NewAssigner(b *actor.Base, term uint64, leadership messages.Reader[messages.Leadership],
	members messages.Reader[messages.Members], acks messages.Reader[messages.Acks],
	workload messages.Reader[messages.Workload], control messages.Reader[messages.Control],
	bump *messages.Mailbox[messages.Bump, messages.Leadership],
	out *messages.State[messages.Plan]) *Assigner {
	return &Assigner{Base: b, term: term, leadership: leadership, members: members, acks: acks,
		workload: workload, control: control, bump: bump, out: out}
}

// overrideWindow: an override counts for the first draft after it, however long what that is made
// of takes to read. Beyond that, an override that arrives up to this long before the brake still
// releases it. coordd work rm writes both keys, and the two watches may report them in either
// order.
const overrideWindow = 10 * time.Second

// errTermOver ends the assigner's loop; its tree stops with the leadership.
var errTermOver = errors.New("the term is over")

// Run is the actor: see [supervisor.Child].
func (a *Assigner) Run(ctx context.Context) error {
	a.assigned, a.build = newAssignmentCache(), newUnitBuilder(a.Keys)
	a.readAt, a.absent, a.moves = map[string]uint64{}, map[string]absence{}, map[string]int{}
	a.apart, a.foreign = map[string]*apart{}, map[string]*aside{}
	a.ledger, a.placed = movesLedger{}, map[string]time.Time{}
	a.notes, a.failing = map[string]note{}, map[string][]report{}
	a.events = newEventLog(a.Keys, a.ID)
	a.odd = protocol.StrangeKeys{Log: a.Log}
	a.ladder = store.NewLadder()
	a.inherited, a.notedKnown, a.noteFailed, a.noting = false, false, 0, aside{}
	a.sentinelAt = 0
	l := a.leadership.Get()
	a.epoch, a.session, a.resets = l.Epoch, l.Session, l.Resets
	defer a.handOn(ctx)
	err := a.work(ctx)
	if errors.Is(err, errTermOver) {
		a.Idle(ctx)
		<-ctx.Done()
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *Assigner) work(ctx context.Context) error {
	leadership, members, acks := a.leadership.Subscribe(), a.members.Subscribe(), a.acks.Subscribe()
	workload, control := a.workload.Subscribe(), a.control.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	fresh := false // the cache is of this epoch
	a.changed()
	// What an earlier incarnation had under way may still arrive.
	if err := a.newEpoch(ctx); err != nil {
		return err
	}
	var next time.Time
	var seen struct {
		members  lastView[messages.Table[messages.Member]]
		workload lastView[messages.Table[messages.WorkItem]]
		control  lastView[messages.Control]
		acks     lastView[messages.Table[messages.Ack]]
	}
	for {
		back := false
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-leadership.Changed():
			if l := leadership.Take(); l.Term != a.term {
				return errTermOver
			} else {
				fresh = fresh && l.Epoch == a.epoch
				a.enterEpoch(l)
			}
		case <-members.Changed():
			if m := members.Take(); m.Term == a.term {
				back = seen.members.wentBack(m.Index, m.Items, messages.Same)
			}
			a.changed()
		case <-workload.Changed():
			if w := workload.Take(); w.Term == a.term {
				back = seen.workload.wentBack(w.Index, w.Items, messages.Same)
			}
			a.changed()
		case <-control.Changed():
			if c := control.Take(); c.Term == a.term {
				back = seen.control.wentBack(c.Index, c, messages.Control.Same)
			}
			a.changed()
		case <-acks.Changed():
			if k := acks.Take(); k.Term == a.term {
				back = seen.acks.wentBack(k.Index, k.Items, messages.Same)
			}
		case <-timer.At(next):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		if back {
			a.Log.Warn("consul-lost-writes", "then",
				"taking a new epoch and reading everything anew")
			fresh = false
			a.forgetAbsences()
			if err := a.newEpoch(ctx); err != nil {
				return err
			}
		}
		if !a.informed() {
			next = time.Time{}
			continue
		}
		if wait := time.Until(a.again); wait > 0 {
			next = a.again
			continue
		}
		var err error
		if !fresh {
			if err = a.open(ctx); err == nil {
				err = a.readAll(ctx)
			}
			if err == nil {
				fresh = true
				supervisor.Ready(ctx)
			}
		}
		if err == nil {
			next, err = a.round(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.ladder.Reset()
			a.Store.Succeeded("assignments")
		case errors.Is(err, errStale):
			fresh = false
			if err := a.newEpoch(ctx); err != nil {
				return err
			}
			a.again = time.Now().Add(a.ladder.NextBackOff()) // it may be in doubt again, and again
			next = a.again
		case errors.Is(err, store.ErrRefused):
			a.again = time.Now().Add(a.ladder.NextBackOff())
			next = a.again
		case actor.Transient(err):
			a.again = a.Retry("assignments", err, a.ladder)
			next = a.again
		default:
			return err
		}
	}
}

// errStale: the cache may differ from Consul.
var errStale = errors.New("the outcome of a write is not known")

func (a *Assigner) changed() {
	a.quiet, a.heeded = time.Now(), a.indexes()
	if a.first.IsZero() {
		a.first = a.quiet
	}
}

// indexes are those of the states whose changes are soaked.
func (a *Assigner) indexes() [3]uint64 {
	return [...]uint64{a.members.Get().Index, a.workload.Get().Index, a.control.Get().Index}
}

// informed tells whether every state is of this term: never plan on an incomplete read.
func (a *Assigner) informed() bool {
	if mutations.Broken("uninformed") {
		return true
	}
	return a.members.Get().Term == a.term && a.acks.Get().Term == a.term &&
		a.workload.Get().Term == a.term && a.control.Get().Term == a.term
}

// newEpoch makes every earlier write of this leader void.
func (a *Assigner) newEpoch(ctx context.Context) error {
	if mutations.Broken("no-new-epoch") {
		return nil
	}
	for {
		l, err := a.bump.Call(ctx, messages.Bump{Epoch: a.epoch})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && l.Term == a.term:
			a.enterEpoch(l)
			return nil
		case err == nil, errors.Is(err, actor.ErrNotLeading):
			return errTermOver
		case actor.Transient(err), errors.Is(err, messages.ErrAbandoned):
			if !store.Pause(ctx, time.Until(a.Retry("leader key", err, a.ladder))) {
				return ctx.Err()
			}
		default:
			return err
		}
	}
}

func (a *Assigner) enterEpoch(l messages.Leadership) {
	a.epoch, a.session = l.Epoch, l.Session
	if l.Resets != a.resets {
		a.resets = l.Resets
		a.forgetAbsences()
	}
}

// forgetAbsences makes every grace begin anew: a Consul that went back has forgotten who was back
// meanwhile.
func (a *Assigner) forgetAbsences() {
	clear(a.absent)
	clear(a.handed)
}

// open begins to write in this epoch.
func (a *Assigner) open(ctx context.Context) error {
	if err := a.readEvents(ctx); err != nil {
		return err
	}
	open := func() (err error) {
		a.writer, err = a.Store.OpenWriter(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch),
			a.Keys.Sequence("leader/"), inFlight, append(a.events.opening(time.Now()),
				store.Set(a.Keys.Control(), nil, 0))...) // its sentinel: see keepSentinel
		return err
	}
	err := open()
	if err != nil && a.events.toBlame(err, 1) {
		a.events.off = true
		without := open()
		if a.events.off = false; without == nil {
			a.events.turnOff(a, err)
		}
		err = without
	}
	if errors.Is(err, store.ErrRefused) {
		return errStale
	}
	if err == nil {
		a.events.works()
		a.comment()
	}
	return err
}

// keepSentinel gives an empty workload a sentinel. A watch of an empty prefix is woken by every
// neighbour. A sentinel that is there already changes nothing and wakes nobody. A workload that
// holds items gets none: it would make the watch read all of them again.
func (a *Assigner) keepSentinel(ctx context.Context) error {
	w := a.workload.Get()
	if w.Items.Len() > 0 || w.Index == a.sentinelAt {
		return nil
	}
	_, err := a.Store.NamedTxn(ctx, "sentinel", store.CheckIndex(a.Keys.Leader(), a.epoch),
		store.Set(a.Keys.Workload(), nil, 0))
	if errors.Is(err, store.ErrRefused) {
		return errStale
	}
	if err == nil {
		a.sentinelAt = w.Index
	}
	return err
}

// readAll reads the whole assignments tree: once per epoch, never watched.
func (a *Assigner) readAll(ctx context.Context) error {
	acks := a.acks.Get().Items // as they were before the read
	entries, _, err := a.Store.List(ctx, a.Keys.Assignments(), store.Consistent)
	if err != nil {
		return err
	}
	if mutations.Broken("partial-read") {
		entries = entries[:len(entries)/2]
	}
	a.assigned.load(a.Keys, entries, &a.odd)
	a.events.still(a.assigned)
	if err := a.readNotes(ctx); err != nil {
		return err
	}
	clear(a.readAt)
	clear(a.failing)
	for id, ack := range acks.All() {
		if err := a.readFailing(ctx, id, ack); err != nil {
			return err
		}
		a.readAt[id] = ack.ModifyIndex
	}
	if a.Observer != nil {
		a.ledger.begin(a.assigned.members)
	}
	if mutations.Broken("absences-cleared") {
		clear(a.absent)
	}
	if a.inherited {
		return nil
	}
	return a.inherit(ctx)
}

// readRaised reads the keys of each member that has raised its ack since.
func (a *Assigner) readRaised(ctx context.Context) error {
	acks := a.acks.Get().Items
	raised := map[string]uint64{}
	for id, ack := range acks.All() {
		if ack.ModifyIndex != a.readAt[id] {
			raised[id] = ack.ModifyIndex
		}
	}
	for id := range a.readAt {
		if !acks.Has(id) { // it said goodbye, and took its keys along
			raised[id] = 0
		}
	}
	if len(raised) > 32 {
		return a.readAll(ctx)
	}
	for id, index := range raised {
		entries, _, err := a.Store.List(ctx, a.Keys.AssignmentsOf(id), store.Consistent)
		if err != nil {
			return a.readAll(ctx) // that may be about this one alone
		}
		before := a.assigned.members[id]
		a.assigned.loadMember(a.Keys, id, entries, &a.odd)
		a.gaveUp(id, before, a.assigned.members[id])
		ack, _ := acks.Get(id)
		if err := a.readFailing(ctx, id, ack); err != nil {
			return err
		}
		if index == 0 {
			delete(a.readAt, id)
		} else {
			a.readAt[id] = index
		}
	}
	return nil
}

// round drafts and writes once; it returns when time alone calls for the next.
func (a *Assigner) round(ctx context.Context) (next time.Time, err error) {
	if err := a.readRaised(ctx); err != nil {
		return time.Time{}, err
	}
	foreign, err := a.deleteForeignRecords(ctx)
	if err != nil {
		return time.Time{}, err
	}
	ask, err := a.confirmAbsent(ctx)
	ask = actor.Earliest(ask, foreign)
	if err != nil {
		return time.Time{}, err
	}
	if err := a.tryEventsAgain(ctx); err != nil {
		return time.Time{}, err
	}
	if err := a.keepSentinel(ctx); err != nil {
		return time.Time{}, err
	}
	s := a.snapshot(time.Now())
	d := s.draft()
	a.tell(s, d)
	a.observe(s, d)
	units, groups, retry := a.possible(d.units, s.now)
	units = a.events.join(units, len(groups) > 0, s.now, a.Merge)
	if len(units) > 0 {
		err = a.write(ctx, units)
	}
	vain := 0
	for i := 0; i < len(groups) && err == nil && vain < mostInVain; i++ {
		err = a.writeApart(ctx, groups[i])
		if a.rests(groups[i][0]) {
			vain++
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	if vain == mostInVain { // it may be all of them
		a.again = time.Now().Add(time.Second)
	}
	if len(units)+len(groups) > 0 {
		return time.Now(), nil // what was written is drafted upon at once
	}
	next = actor.Earliest(actor.Earliest(actor.Earliest(ask, d.wake), retry), a.note(ctx, false))
	next = actor.Earliest(actor.Earliest(next, d.later), a.events.due(a.Merge))
	if s.place {
		a.first = time.Time{}
	}
	if d.waiting {
		if !s.place {
			next = actor.Earliest(next, a.placeAt())
		} else if !s.balance {
			next = actor.Earliest(next, a.quiet.Add(a.LeaderSoak))
		}
	}
	return next, nil
}

func (a *Assigner) placeAt() time.Time {
	if a.first.IsZero() {
		return time.Time{}
	}
	return actor.Earliest(a.quiet.Add(a.Merge), a.first.Add(4*a.Merge))
}

func (a *Assigner) snapshot(now time.Time) *snapshot {
	// A registration changes record and ack. Where the ack's watch was first to wake the assigner,
	// or a state changed while something was read, its change has not been taken yet.
	if a.indexes() != a.heeded {
		a.changed()
		now = a.quiet
	}
	w := a.workload.Get()
	if a.index == nil || a.indexOf != w.Index {
		a.index = make(map[string]int32, w.Items.Len())
		i := int32(0)
		for id := range w.Items.IDs() {
			a.index[id] = i
			i++
		}
		a.indexOf = w.Index
	}
	control := a.control.Get()
	override := !control.OverrideAt.IsZero() && (!control.OverrideAt.Equal(a.overrideSeen) ||
		now.Sub(control.OverrideAt) < overrideWindow ||
		!a.brakeAt.IsZero() && control.OverrideAt.After(a.brakeAt.Add(-overrideWindow)))
	keep := a.brakeText != "" && !control.Freeze
	peak := a.sizes.see(now, now.Add(-4*a.Merge), w.Items.Len(), keep)
	if override {
		a.sizes.forget()
		peak = w.Items.Len()
	}
	return &snapshot{
		now: now, members: a.members.Get().Items, workload: w.Items, index: a.index,
		control:  control,
		assigned: a.assigned, absent: a.absent, build: a.build, origin: a.origin,
		notes: a.notes, failing: a.failing,
		place:   a.first.IsZero() || !now.Before(a.placeAt()),
		balance: !now.Before(a.quiet.Add(a.LeaderSoak)),
		budget:  a.budget(w.Items.Len()), cooling: a.cooling(now), releases: a.releases,
		stopping: a.StopTimeout, hold: a.BrakeHold, braked: a.brakeText != "", peak: peak,
		override: override, overridden: a.overridden,
	}
}

// budget is how many of so many items may be on the move at one time.
func (a *Assigner) budget(items int) int {
	n := a.MoveBudget
	if a.MoveBudgetShare > 0 {
		share := int(a.MoveBudgetShare * float64(items))
		n = min(cmp.Or(n, share), share)
	}
	return max(1, n)
}

// cooling says until when items stay where they were placed.
func (a *Assigner) cooling(now time.Time) map[string]time.Time {
	until := make(map[string]time.Time, len(a.placed))
	for item, at := range a.placed {
		if end := at.Add(a.ItemCooldown); now.Before(end) {
			until[item] = end
		} else {
			delete(a.placed, item)
		}
	}
	return until
}

// tell publishes the plan and logs what is new about it.
func (a *Assigner) tell(s *snapshot, d draft) {
	if d.brake != a.brakeText {
		if d.brake != "" {
			a.Log.Error("brake-on", "why", d.brake)
			a.brakeAt = s.now
		} else {
			a.Log.Info("brake-off")
			a.brakeAt = time.Time{}
		}
		a.brakeText = d.brake
	}
	a.releases = d.releases
	a.overridden, a.overrideSeen = d.overridden, s.control.OverrideAt
	for _, item := range d.doubles {
		a.odd.Skip(store.Entry{Key: a.Keys.Assignments() + "*/" + item},
			"the item has two keys: the younger is taken back")
	}
	if d.plan.Settled && !a.settled {
		a.Log.Info("settled", "items", d.plan.Total, "members", d.plan.Shares.Len(), "unplaced",
			d.plan.Unplaced)
		if a.Observer != nil {
			a.Observer.Observe(a.ledger.rested(s))
		}
	}
	a.settled = d.plan.Settled
	d.plan.Term, d.plan.Epoch = a.term, a.epoch
	d.plan.Moves = messages.TableOf(a.moves)
	a.out.Set(d.plan)
}

// write sends the units and takes their outcomes into the cache.
func (a *Assigner) write(ctx context.Context, units []store.Unit) error {
	began := time.Now()
	outcomes := a.writer.Write(ctx, units)
	var failed error
	done := map[string]int{}
	doubt := map[string]bool{}
	var unknown []store.Outcome
	logDenied := sync.OnceValue(func() bool { return a.logDenied(ctx) })
	for _, o := range outcomes {
		what := o.Unit.Tag.(order)
		if what.kind == orderEvents && (o.Err == nil || errors.Is(o.Err, store.ErrInvalid)) {
			a.events.written()
			continue
		}
		if o.Err == nil {
			if a.Observer != nil {
				a.applied(what)
			}
			a.enter(what, o.Result)
			a.events.did(what)
			delete(a.apart, what.key(a.Keys))
			a.moves[what.reason]++
			done[what.verb()]++
			continue
		}
		if refused, ok := errors.AsType[*store.RefusedError](o.Err); ok && !refused.Guard {
			doubt[what.from], doubt[what.to] = true, true
			failed = errors.Join(failed, fmt.Errorf("%s %s: %w", what.verb(), what.item, o.Err))
			continue
		}
		if errors.Is(o.Err, store.ErrNotSent) {
			continue
		}
		if errors.Is(o.Err, store.ErrDenied) && (logDenied() || what.kind == orderEvents) {
			continue // it is sent again, without the log
		}
		if errors.Is(o.Err, store.ErrInvalid) || errors.Is(o.Err, store.ErrDenied) {
			// It changed nothing, and will not: it concerns nobody but its own item.
			a.refused(what, o.Err, len(units))
			continue
		}
		// The guard or a sequence key refused (deposed, or a key was touched), or the outcome is
		// unknown.
		unknown = append(unknown, o)
	}
	if len(done) > 0 {
		a.ladder.Reset()
	}
	if len(unknown) > 0 {
		a.Log.Info("write-in-doubt", "epoch", a.epoch, "err", unknown[0].Err, "then",
			"taking a new epoch and reading everything anew")
		a.inDoubt(unknown, began)
		return errStale
	}
	for what, n := range done {
		a.Log.Info("assignments-written", "what", what, "items", n)
	}
	if failed == nil {
		return nil
	}
	a.Log.Debug("assignments-refused", "err", failed)
	// Something had changed in between. The keys of all who were concerned are read again.
	for id := range doubt {
		if id != "" {
			delete(a.readAt, id)
			if away, ok := a.absent[id]; ok {
				away.doubt = true
				a.absent[id] = away
			}
			entries, _, err := a.Store.List(ctx, a.Keys.AssignmentsOf(id), store.Consistent)
			if err != nil {
				return errStale
			}
			a.assigned.loadMember(a.Keys, id, entries, &a.odd)
		}
	}
	return fmt.Errorf("%w: replanning", store.ErrRefused)
}

// applied tells the observer of one applied order, before it is taken into the cache.
func (a *Assigner) applied(o order) {
	a.Observer.Observe(messages.Assigned{Action: o.verb(), Reason: o.reason, Items: 1})
	if o.kind == orderGrant || o.kind == orderReap {
		a.ledger.moves++
	}
	if o.kind == orderReap {
		away := a.absent[o.from]
		missed := away.asked
		if !away.since.IsZero() && away.since.Before(missed) { // an earlier leader has missed it
			missed = away.since
		}
		a.Observer.Observe(messages.TakenOver{After: time.Since(missed)})
	}
}

// inFlight is how many transactions are under way at once: 100,000 keys take
// 3.9 s one by one and 3.0 s with four; more gain nothing.
const inFlight = 4

// enter takes one applied order into the cache.
func (a *Assigner) enter(o order, r store.Result) {
	switch o.kind {
	case orderGrant, orderReap:
		if o.kind == orderReap {
			a.assigned.drop(o.from, o.item)
		}
		reason := o.reason
		if o.kind == orderGrant {
			reason = o.cause
		}
		if a.ItemCooldown > 0 {
			a.placed[o.item] = time.Now()
		}
		a.assigned.set(o.to, o.item, messages.Assignment{Session: o.session, Reason: reason,
			AtOnce: o.kind == orderReap, CreateIndex: r.Index, ModifyIndex: r.Index})
	case orderRevoke, orderCancel:
		x := a.assigned.members[o.from][o.item]
		x.Releasing, x.Reason, x.ModifyIndex = o.kind == orderRevoke, o.reason, r.Index
		x.Unreadable = false // it holds what this leader wrote
		a.assigned.set(o.from, o.item, x)
		if o.note != nil {
			a.notes[o.item] = note{*o.note, r.Index}
		}
	case orderRestart:
		x := a.assigned.members[o.from][o.item]
		x.Restart, x.ModifyIndex = o.restart, r.Index
		a.assigned.set(o.from, o.item, x)
	case orderForget:
		delete(a.notes, o.item)
	case orderErase:
		a.assigned.drop(o.from, o.item)
	case orderSweep:
		delete(a.build.kept, o.from)
		delete(a.absent, o.from)
		delete(a.readAt, o.from)
	}
}

func (o order) verb() string {
	return [...]string{"granted", "revoked", "cancelled", "taken-over", "erased", "restarted",
		"swept", "forgotten", "events"}[o.kind]
}
