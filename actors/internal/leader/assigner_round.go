package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// One round of the assigner: what it reads, and what it drafts of that, writes and tells.

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
	unread, err := a.readUnread(ctx)
	ask = actor.Earliest(ask, unread)
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
	a.tellDenied(d.units)
	if vain == mostInVain { // it may be all of them
		a.again = time.Now().Add(time.Second)
	}
	if len(units)+len(groups) > 0 {
		return time.Now(), nil // what was written is drafted upon at once
	}
	noted, err := a.note(ctx, false)
	if err != nil {
		return time.Time{}, err
	}
	next = actor.Earliest(actor.Earliest(actor.Earliest(ask, d.wake), retry), noted)
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

// tell publishes the plan and logs what is new about it.
func (a *Assigner) tell(s *snapshot, d draft) {
	if d.brake != a.brakeText {
		if d.brake != "" {
			a.Log.Error("brake-on", "why", d.brake)
		} else {
			a.Log.Info("brake-off")
		}
		a.brakeText, a.brakeAt = d.brake, s.now
	}
	if d.braked == brakeOff { // an override is not about a freeze
		a.brakeAt = time.Time{}
	}
	a.braked, a.releases, a.peak, a.spent = d.braked, d.releases, 0, 0
	if d.braked == brakeForItems {
		a.spent = s.control.Override
		a.peak = max(1, s.peak) // all of it may have gone before this leader came
	}
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
