package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// How the assigner writes a draft, and enters into its cache what was written.

// write sends the units and takes their outcomes into the cache.
func (a *Assigner) write(ctx context.Context, units []store.Unit) error {
	began := time.Now()
	outcomes := a.writer.Write(ctx, units)
	var failed error
	done := map[string]int{}
	doubt := map[string]bool{}
	var unknown []store.Outcome
	a.assigned.expect(outcomes)
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
			if len(a.apart) > 0 {
				a.wrote(what)
			}
			a.moves[what.reason]++
			done[what.verb()]++
			continue
		}
		if refused, ok := errors.AsType[*store.RefusedError](o.Err); ok && !refused.Guard {
			doubt[what.from], doubt[what.to] = true, true
			if ofUnit(refused, o.Unit) {
				a.outdated(what, o.Err, began, len(units))
			}
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
	delete(doubt, "")
	ids := slices.Sorted(maps.Keys(doubt))
	for i, read := range a.readKeys(ctx, ids) {
		id := ids[i]
		delete(a.readAt, id)
		if away, ok := a.absent[id]; ok && away.doubt.IsZero() {
			away.doubt = time.Now()
			a.absent[id] = away
		}
		if read.err != nil {
			return errStale
		}
		a.assigned.loadMember(a.Keys, id, read.entries, &a.odd)
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

// enter takes one applied order into the cache.
func (a *Assigner) enter(o order, r store.Result) {
	switch o.kind {
	case orderGrant, orderReap:
		if o.kind == orderReap {
			a.assigned.drop(o.from, o.item)
		}
		if a.ItemCooldown > 0 {
			a.placed[o.item] = time.Now()
		}
		a.assigned.set(o.to, o.item, messages.Assignment{Session: o.session, Reason: o.cause,
			AtOnce: o.kind == orderReap, CreateIndex: r.Index, ModifyIndex: r.Index})
		if o.note != nil {
			a.notes[o.item] = note{*o.note, r.Index}
		}
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
	case orderTell:
		x := a.assigned.members[o.from][o.item]
		x.Changed, x.ModifyIndex = o.changed, r.Index
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
		"changed", "swept", "forgotten", "events"}[o.kind]
}
