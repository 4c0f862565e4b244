package leader

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// round reads what has changed, plans, writes and says what stands. It returns when time alone
// calls for the next.
func (a *Assigner) round(ctx context.Context) (next time.Time, err error) {
	if err := a.readRaised(ctx); err != nil {
		return time.Time{}, err
	}
	ask, err := a.confirmAbsent(ctx)
	if err != nil {
		return time.Time{}, err
	}
	in := a.look(time.Now())
	p := in.plan()
	a.tell(in, p)
	sent, retry, err := a.write(ctx, p)
	if err != nil {
		return time.Time{}, err
	}
	if sent { // what was written is planned upon at once
		return time.Now(), nil
	}
	noted, err := a.note(ctx, false)
	if err != nil {
		return time.Time{}, err
	}
	for _, at := range []time.Time{ask, retry, noted, p.wake, p.later, a.events.due(a.Merge),
		a.soak.planned(in.rest, p.waiting, a.Settings)} {
		next = actor.Earliest(next, at)
	}
	return next, nil
}

// look takes the states in, and returns what the leader knows at now.
func (a *Assigner) look(now time.Time) *inputs {
	// A registration changes record and ack. Where the ack's watch was first to wake the assigner,
	// or a state changed while something was read, its change has not been taken yet.
	seen := a.scene()
	if a.soak.see(time.Now(), seen) {
		now = a.soak.quiet
	}
	a.zones.see(seen.members.Items, a.absences.away)
	in := &inputs{now: now, members: seen.members.Items, workload: seen.workload.Items,
		control: seen.control, assigned: a.known, absent: a.absences.away, failures: a.failures,
		origin: a.events.origin(seen.members.Items), zones: a.zones, brake: a.brake,
		rest:   a.soak.rest(now, a.Settings),
		limits: limitsOf(a.Settings, seen.workload.Items.Len())}
	in.onTheMove = a.onTheMove
	if a.planned != nil && a.workloadAt == seen.workload.Index {
		in.index = a.planned.index
	} else {
		in.index, a.workloadAt = indexOf(in.workload), seen.workload.Index
	}
	a.planned = in
	return in
}

// tell publishes the plan, and logs what is new about it.
func (a *Assigner) tell(in *inputs, p plan) {
	if p.brake.text != a.brake.text {
		if p.brake.text != "" {
			a.Log.Error("brake-on", "why", p.brake.text)
		} else {
			a.Log.Info("brake-off")
		}
	}
	a.brake, a.onTheMove = p.brake, p.onTheMove
	for _, item := range p.doubles {
		a.unreadable.Skip(store.Entry{Key: a.Keys.Assignments() + "*/" + item},
			"the item has two keys: the younger is taken back")
	}
	if p.says.Settled && !a.settled {
		a.Log.Info("settled", "items", p.says.Total, "members", p.says.Shares.Len(), "unplaced",
			p.says.Unplaced)
	}
	if a.settled = p.says.Settled; p.says.Settled {
		clear(a.events.origins) // nobody asks for them any more
	}
	a.events.see(in.now, view{members: in.members, absent: in.absent, control: in.control,
		brake: p.brake, holds: func(id string) int { return len(a.known[id]) }})
	p.says.Term, p.says.Epoch = a.term, a.epoch.Epoch
	a.out.Set(p.says)
}

// observe tells the observer of one applied order, before it is taken in.
func (a *Assigner) observe(o *order) {
	a.Observer.Observe(facts.Assigned{Action: o.verb(), Reason: string(o.reason), Items: 1})
	if o.kind == orderReap {
		away := a.absences.away[o.from]
		missed := away.asked
		if !away.since.IsZero() && away.since.Before(missed) { // an earlier leader has missed it
			missed = away.since
		}
		a.Observer.Observe(facts.TakenOver{After: time.Since(missed)})
	}
}

// readAll reads all that is known: once per epoch, never watched.
func (a *Assigner) readAll(ctx context.Context) error {
	acks := a.views.acks.Get().Items // as they were before the read
	prefixes := []string{a.Keys.Assignments(), a.Keys.Quarantines(), a.Keys.Events()}
	read, errs := make([][]store.Entry, 3), make([]error, 4)
	together(4, func(i int) {
		errs[i] = unanswered("reading what is assigned")
		if i == 3 {
			errs[i] = a.noted.read(ctx, a.Store)
			return
		}
		read[i], _, errs[i] = a.Store.List(ctx, prefixes[i], store.Consistent)
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.known.load(a.Keys, "", read[0], a.unreadable.Skip)
	a.failures.load(a.Keys, read[1], a.unreadable.Skip)
	a.events.load(a.Keys.ReadEvents(read[2], a.unreadable.Skip), a.term, a.epoch.Epoch, a.known)
	clear(a.readAt)
	clear(a.failures.reports)
	var failing []string
	for id, ack := range acks.All() {
		if a.readAt[id] = ack.ModifyIndex; ack.Failing {
			failing = append(failing, id)
		}
	}
	if a.noted.bad != "" {
		a.unreadable.Skip(store.Entry{Key: a.Keys.LeaderState()}, a.noted.bad)
	}
	if !a.noted.inherited {
		a.noted.inherited = true
		a.inherit(time.Now())
	}
	return a.readFailing(ctx, failing)
}

// inherit goes on with what the last leader has noted.
func (a *Assigner) inherit(now time.Time) {
	s := a.noted.state
	if now.Sub(s.At).Abs() < max(s.Life, a.life()) {
		maps.Copy(a.absences.handed, s.Absent)
	}
}

// readRaised reads the keys of each member that has raised its ack since.
func (a *Assigner) readRaised(ctx context.Context) error {
	acks := a.views.acks.Get().Items
	var raised, failing []string
	for id, ack := range acks.All() {
		if ack.ModifyIndex != a.readAt[id] {
			raised = append(raised, id)
			if ack.Failing {
				failing = append(failing, id)
			} else {
				delete(a.failures.reports, id)
			}
		}
	}
	for id := range a.readAt {
		if !acks.Has(id) { // it said goodbye, and took its keys along
			raised = append(raised, id)
			delete(a.failures.reports, id)
		}
	}
	if len(raised) > 4*asking {
		return a.readAll(ctx)
	}
	read, err := a.readKeys(ctx, raised)
	if err != nil {
		return err
	}
	if err := a.readFailing(ctx, failing); err != nil {
		return err
	}
	for i, id := range raised {
		before := a.known[id]
		a.known.load(a.Keys, id, read[i], a.unreadable.Skip)
		a.events.gaveUp(id, before, a.known[id])
		if ack, here := acks.Get(id); here {
			a.readAt[id] = ack.ModifyIndex
		} else {
			delete(a.readAt, id)
		}
	}
	return nil
}

// readKeys reads the keys of each of the members, several at one time.
func (a *Assigner) readKeys(ctx context.Context, members []string) ([][]store.Entry, error) {
	read, errs := make([][]store.Entry, len(members)), make([]error, len(members))
	together(len(members), func(i int) {
		errs[i] = unanswered("reading the items of " + members[i])
		read[i], _, errs[i] = a.Store.List(ctx, a.Keys.AssignmentsOf(members[i]), store.Consistent)
	})
	return read, errors.Join(errs...)
}

// readFailing reads what members say of work that fails, several at one time.
func (a *Assigner) readFailing(ctx context.Context, members []string) error {
	read, errs := make([]store.Entry, len(members)), make([]error, len(members))
	together(len(members), func(i int) {
		errs[i] = unanswered("reading what " + members[i] + " says of its work")
		read[i], _, _, errs[i] = a.Store.Get(ctx, a.Keys.State(members[i]), store.Consistent)
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, id := range members {
		w, _, bad := a.Keys.ReadWorkSummary(read[i])
		if bad != nil && read[i].CreateIndex != 0 {
			a.unreadable.Skip(read[i], bad.Error())
			w = protocol.MemberWork{}
		}
		a.failures.say(id, w.WorkSummary)
	}
	return nil
}
