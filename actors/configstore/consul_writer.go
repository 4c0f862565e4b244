package configstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// consulWriter sends the writes to Consul, one after the other. The transaction of a write also
// changes this store's marker, on the condition that the marker is as the writer knows it. So
// Consul applies a write once at most, even if a copy of the request arrives late, and the marker
// tells whether it was applied.
type consulWriter struct {
	*shared
	marker   marker
	opened   *openLog  // the log whose marker was claimed
	failedAt time.Time // when a try last got no answer from Consul
	cached   uint64    // the index of the cache when the last try was sent
}

func (a *consulWriter) run(ctx context.Context) error {
	if opened := a.openLog.Load(); a.opened != opened {
		// The store was started again, and its numbers begin anew. A new claim makes Consul refuse
		// what an earlier run still has under way.
		a.opened, a.marker.held, a.marker.Claim = opened, false, 0
		a.marker.Lost, a.marker.begun = 0, 0
	}
	if !a.marker.held {
		if err := a.Admit(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	for {
		if !a.marker.held {
			if !a.claimMarker(ctx) {
				a.releaseMarker(ctx)
				return nil
			}
		}
		j, err := a.nextWrite.Call(ctx, struct{}{})
		if ctx.Err() != nil {
			a.releaseMarker(ctx)
			return nil
		}
		if err != nil {
			continue // nothing to write any more, or the write queue was restarted
		}
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		o, own, told := a.execute(ctx, &j)
		if !told {
			if ctx.Err() != nil {
				a.releaseMarker(ctx)
				return nil
			}
			// Another process has the marker. This one takes it when it is free: two that took it
			// from each other would go on for ever.
			a.marker.held = false
			continue
		}
		a.report(ctx, o, own)
	}
}

// report puts a write into the cache and has its caller told, also when the store is just stopping:
// the cache updater and the write queue stop after the writer.
func (a *consulWriter) report(ctx context.Context, o outcome, own []ownWrite) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		store.Pause(lasting, leaveTimeout)
		cancel()
	})
	defer stop()
	if len(own) > 0 && a.updateCache(lasting, own) != nil {
		return
	}
	for lasting.Err() == nil {
		_, err := a.outcomes.Call(lasting, o)
		if err == nil {
			return
		}
		if errors.Is(err, errNotLogged) {
			store.Pause(lasting, time.Second)
		}
	}
}

// execute tries until the outcome of the write is known. told is false when this process cannot
// find it out: it stops, or another process has taken the marker.
func (a *consulWriter) execute(ctx context.Context, j *job) (o outcome, own []ownWrite, told bool) {
	ladder := store.NewLadder()
	a.marker.begun = max(a.marker.begun, j.seq)
	// Consul must not apply a write after its caller was told that it is refused. So all tries
	// that are still under way are made void first.
	sealed := false // they were, the last time
	final := func(o outcome, own []ownWrite) (outcome, []ownWrite, bool) {
		if o.err == nil || errors.Is(o.err, ErrUnreachable) {
			return o, own, true
		}
		err := error(nil)
		if j.maybeApplied || j.unknown {
			err = a.fence(ctx, j, ladder)
			sealed = err == nil
		}
		switch {
		case err != nil && !permanent(err):
			return outcome{}, nil, false
		case err == nil && j.seq <= a.marker.Seq:
			return a.alreadyApplied(ctx, j)
		case a.marker.doubts(j): // also of a write that this process has not sent
			o.err = a.unknownOutcome(j)
		case err != nil && permanent(o.err) && !j.unknown:
			// Nothing was written, unless a copy of the request arrives after the token was granted
			// more. No more can be known.
		case err != nil:
			o.err = fmt.Errorf(
				"%w: an earlier try of the write may have been applied, and then: %v",
				ErrUnreachable, o.err)
		}
		return o, own, true
	}
	refuse := func(err error) (outcome, []ownWrite, bool) {
		return final(outcome{seq: j.seq, err: err}, nil)
	}
	// deny refuses a write that the token may not make. One in the log whose caller has gone is to be
	// tried again for a while: then known is false.
	deny := func(err error) (o outcome, own []ownWrite, told, known bool) {
		j.maybeApplied = true // a copy may arrive after the token was granted more
		before, over := a.marker.Denied, false
		if !j.awaited() && j.logged { // the fence writes it
			a.marker.Denied, over = addDenial(before, j.seq, time.Now())
		}
		o, own, told = refuse(err)
		if !sealed {
			a.marker.Denied = before
		}
		if !told || o.err == nil || j.awaited() || !j.logged {
			return o, own, told, true
		}
		// The caller has been told that the write is in the log. If the token may write the marker,
		// it lacks this write's keys, and others need not wait for long.
		if sealed && over {
			o.err = givenUp(o.err)
			return o, own, true, true
		}
		a.denied.Set(denial{seq: j.seq, err: err})
		a.store.Failed("config write", err, deniedPause)
		return outcome{}, nil, false, false
	}
	for {
		if j.seq <= a.marker.Seq {
			return a.alreadyApplied(ctx, j)
		}
		if !j.sent() {
			// It was lost before this write, or before anything of it was applied, unless the
			// request of this write arrived twice: see the package's documentation.
			a.marker.Lost = 0
		}
		if a.marker.doubts(j) && j.creates() {
			return refuse(a.unknownOutcome(j))
		}
		if !j.awaited() {
			if !j.logged { // no caller was told anything, so either outcome is right
				return outcome{seq: j.seq, err: context.Cause(j.request.Context())}, nil, true
			}
			j.waited = true
		}
		j.waited = j.waited || !a.failedAt.Before(j.taken)
		if a.marker.index == 0 { // it was deleted, and could not be made anew
			known, err := a.rereadMarker(ctx)
			if !known {
				return outcome{}, nil, false
			}
			if err != nil && !a.waitRetry(ctx, j, a.failed(err, ladder)) {
				return outcome{}, nil, false
			}
			continue
		}
		ops, at, err := a.ops(j)
		if err != nil {
			return refuse(err)
		}
		a.cached = a.data.Get().index
		// The end of the store does not cut the call short. A call is bounded, and its answer says
		// what became of the write.
		res, err := a.store.Txn(context.WithoutCancel(ctx), ops...)
		wait := time.Duration(0)
		switch refused := (*store.RefusedError)(nil); {
		case err == nil:
			a.store.Succeeded("config write")
			return a.applied(j, res)
		case errors.As(err, &refused):
			a.store.Succeeded("config write")
			if refused.Op > 0 && refused.Op < len(at) {
				entries, moved, denied, ok := a.readKeys(ctx, j)
				// the look may have taken long
				j.waited = j.waited || !j.awaited() || !a.failedAt.Before(j.taken)
				switch i := at[refused.Op]; {
				case !ok:
					wait = ladder.NextBackOff()
				case denied != nil:
					if o, own, told, known := deny(denied); known {
						return o, own, told
					}
					wait = deniedPause
				case !j.ops[i].guard && !j.waited && !j.maybeApplied && !a.marker.doubts(j):
					// Somebody has written since the cache was looked at. This write replaces
					// whatever there is.
					j.unknown = j.unknown || moved || !a.refusedForGood(j, entries)
					j.rebase(entries)
					wait = ladder.NextBackOff() / 20
				default:
					o, own := a.conflict(j, i, entries)
					j.maybeApplied = j.maybeApplied || moved || !a.refusedForGood(j, entries)
					return final(o, own)
				}
				break
			}
			// The marker has changed: by this very write, by another process, or by a stranger.
			switch known, err := a.rereadMarker(ctx); {
			case err != nil:
				if a.marker.index != 0 { // nobody knows why it has changed
					j.maybeApplied, j.unknown = true, true
				}
				wait = a.failed(err, ladder)
			case !known:
				return outcome{}, nil, false
			default:
				wait = ladder.NextBackOff()
			}
			if j.seq <= a.marker.Seq {
				continue
			}
		case errors.Is(err, store.ErrInvalid):
			j.maybeApplied = true // a proxy may have said so, and let a copy through
			return refuse(err)
		case errors.Is(err, store.ErrDenied):
			if o, own, told, known := deny(err); known {
				return o, own, told
			}
			wait = deniedPause
		default:
			if store.OutcomeUnknown(err) {
				j.maybeApplied, j.unknown = true, true
			}
			wait = a.failed(err, ladder)
		}
		if !a.waitRetry(ctx, j, wait) {
			return outcome{}, nil, false
		}
	}
}

// permanent tells whether every further try of the request would be refused as well.
func permanent(err error) bool {
	return errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid)
}

func (a *consulWriter) failed(err error, ladder *store.Ladder) time.Duration {
	a.failedAt = time.Now()
	wait := ladder.NextBackOff()
	a.store.Failed("config write", err, wait)
	return wait
}

// waitRetry waits before the next try; a caller who goes away ends the wait. It tells whether to go
// on.
func (a *consulWriter) waitRetry(ctx context.Context, j *job, d time.Duration) bool {
	if j.request == nil || j.logged {
		return store.Pause(ctx, d)
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(j.request.Context(), cancel)
	defer stop()
	store.Pause(both, d)
	return ctx.Err() == nil
}

// ops returns the operations of the transaction, and for each the index of the job's operation that
// it belongs to. The error is a conflict that is known before anything is sent.
func (a *consulWriter) ops(j *job) (ops []store.Op, at []int, err error) {
	for _, o := range j.ops {
		if o.baseRefused && !o.guard && j.waited {
			return nil, nil, &ConflictError{Key: o.key,
				Why: "it was to replace an earlier write of this store, which was refused"}
		}
	}
	ops = append(ops, store.CAS(a.markerKey(), a.marker.afterWrite(j.seq).Encode(), 0,
		a.marker.index))
	more, at := a.txn(j)
	return append(ops, more...), append([]int{-1}, at...), nil
}

// txn returns the operations of a write, and for each the index of the job's operation that it
// belongs to.
func (sh *shared) txn(j *job) (ops []store.Op, at []int) {
	add := func(i int, more ...store.Op) {
		for _, op := range more {
			ops, at = append(ops, op), append(at, i)
		}
	}
	for i, o := range j.ops {
		// Each operation has a condition, also one that replaces whatever there is. A request may
		// arrive after its sender has given up, and must not replace what others wrote meanwhile.
		key, index := sh.keys.ConfigKey(o.key), o.wants()
		switch {
		case o.verb == verbSet:
			add(i, store.CAS(key, o.value, o.flags, index))
		case index == 0:
			add(i, store.CheckNotExists(key))
		case o.verb == verbExpect:
			add(i, store.CheckIndex(key, index))
		default: // delete-cas accepts a missing key
			add(i, store.CheckIndex(key, index), store.Delete(key))
		}
	}
	return ops, at
}

// applied handles Consul's answer to a write that it has accepted.
func (a *consulWriter) applied(j *job, res store.Result) (outcome, []ownWrite, bool) {
	e, _ := res.Entry(a.markerKey())
	// The cache ignores what is below its index. It holds an index from before a restore, which is
	// larger than those that Consul gives now.
	if e.ModifyIndex <= max(a.marker.index, a.cached) || a.marker.Lost != 0 {
		a.invalidate()
	}
	a.marker.set(a.marker.afterWrite(j.seq), e.ModifyIndex)
	if a.firstTime(j, res, e.ModifyIndex) {
		a.marker.Lost = 0 // no process has come farther than this write
	}
	o := outcome{seq: j.seq, at: e.ModifyIndex, keys: map[string]uint64{}}
	var own []ownWrite
	for _, op := range j.ops {
		switch op.verb {
		case verbRemove:
			o.keys[op.key] = 0
			own = append(own, ownWrite{index: e.ModifyIndex, key: op.key})
		case verbSet:
			got, _ := res.Entry(a.keys.ConfigKey(op.key))
			value := op.value
			if value == nil {
				value = []byte{}
			}
			o.keys[op.key] = got.ModifyIndex
			own = append(own, ownWrite{index: got.ModifyIndex, key: op.key,
				entry: &Entry{Key: op.key, Value: value, Index: got.ModifyIndex,
					CreateIndex: got.CreateIndex, Flags: got.Flags}})
		}
	}
	return o, own, true
}

// firstTime tells whether a write that was applied cannot have been applied before: it has changed
// a key. Consul gives a key no new index whose value stays the same, and deletes one that it has
// not.
func (a *consulWriter) firstTime(j *job, res store.Result, at uint64) bool {
	return slices.ContainsFunc(j.ops, func(o Op) bool {
		switch got, _ := res.Entry(a.keys.ConfigKey(o.key)); o.verb {
		case verbSet:
			return got.ModifyIndex == at
		case verbRemove:
			return o.wants() != 0
		}
		return false
	})
}

// refusedForGood tells whether Consul would refuse the write at any later time as well. Indexes
// only rise, so a key with a larger index never has the one that was asked for again. A key that
// must not exist may be deleted, so such a write may work later.
func (a *consulWriter) refusedForGood(j *job, entries []store.Entry) bool {
	for i, o := range j.ops {
		if want := o.wants(); want != 0 && entries[i].ModifyIndex > want {
			return true
		}
	}
	return false
}

// rebase makes a write one that replaces what was read.
func (j *job) rebase(entries []store.Entry) {
	for i := range j.ops {
		j.ops[i].base, j.ops[i].flags = entries[i].ModifyIndex, entries[i].Flags
	}
}

// conflict says what stands in the way of a write, by what was read of its keys.
func (a *consulWriter) conflict(j *job, i int, entries []store.Entry) (o outcome, own []ownWrite) {
	if doubtful := a.marker.doubts(j); doubtful && !j.guarded() && alreadyDone(j, entries) {
		// The keys are as the write makes them. Nobody can say whether this write did it. That is
		// success, except for a write with a condition: it asks who was first.
		o.keys = map[string]uint64{}
		for i, op := range j.ops {
			if op.verb != verbExpect {
				o.keys[op.key] = entries[i].ModifyIndex
			}
		}
	} else if doubtful {
		o.err = a.unknownOutcome(j)
	} else {
		e := &ConflictError{Key: j.ops[i].key, Want: j.ops[i].wants(), Have: entries[i].ModifyIndex}
		if !j.ops[i].guard {
			e.Why = "the write had to wait, and another came first"
		}
		o.err = e
	}
	// The cache takes what was read here, so that the next try is based on it.
	for i, op := range j.ops {
		if entries[i].CreateIndex != 0 {
			own = append(own, ownOf(a.keys, op.key, entries[i], 0))
		}
	}
	o.seq = j.seq
	return o, own
}

// unknownOutcome is the error for a write when nobody can tell whether it was applied.
func (a *consulWriter) unknownOutcome(j *job) error {
	return fmt.Errorf("%w: config key %q: an earlier try of the write may have been applied, and "+
		"%s, which would tell, was deleted or overwritten, by a stranger or by another process of "+
		"this name, or Consul was restored: read the key and decide anew",
		ErrUnreachable, j.ops[0].key, a.markerKey())
}

// alreadyDone tells whether the keys are as the write makes them.
func alreadyDone(j *job, entries []store.Entry) bool {
	for i, op := range j.ops {
		there := entries[i].CreateIndex != 0
		switch {
		case op.verb == verbRemove && there,
			op.verb == verbSet && (!there || !bytes.Equal(entries[i].Value, op.value)):
			return false
		}
	}
	return true
}
