package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The epochs that the assigner takes, and with which it begins to write.

// newEpoch makes every earlier write of this leader void.
func (a *Assigner) newEpoch(ctx context.Context) error {
	for {
		l, err := a.bump.Call(ctx, messages.Bump{Epoch: a.epoch})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && l.Term == a.term:
			a.enterEpoch(l)
			return nil
		case errors.Is(err, actor.ErrNotLeading) && a.leads():
			// The lease was over at that moment. The next step of the tracker may find another
			// one, which came meanwhile, and then the term goes on.
			if !store.Pause(ctx, a.ladder.NextBackOff()) {
				return ctx.Err()
			}
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

// leads tells whether this member leads in the assigner's term, as far as the tracker has said.
func (a *Assigner) leads() bool {
	l := a.leadership.Get()
	return l.Role == messages.Leading && l.Term == a.term
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

// inFlight is how many transactions are under way at once: 100,000 keys take
// 3.9 s one by one and 3.0 s with four; more gain nothing.
const inFlight = 4
