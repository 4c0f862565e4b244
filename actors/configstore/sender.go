package configstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// sender sends the writes of the outbox to Consul, one after the other. The transaction of a write
// also moves a sequence key, under the name of the write. So Consul applies a write at most once,
// even if a copy of the request arrives late, and the names in the key tell whether it was applied.
type sender struct {
	*shared
	seq      store.Sequence // as this process saw or moved it last
	failedAt time.Time      // when a try last got no answer from Consul
}

func (a *sender) run(ctx context.Context) error {
	a.seq = store.Sequence{Key: a.keys.SequenceOf("config", a.opened.Load().first.ID)}
	// A denied read is not the last word: the first write is denied as well, and says so.
	_ = store.RetryUnlessDenied(ctx, a.store, "config sequence", func(ctx context.Context) error {
		q, err := store.ReadSequence(ctx, a.store, a.seq.Key)
		if err == nil {
			a.see(q)
		}
		return err
	})
	for ctx.Err() == nil {
		j, err := a.next.Call(ctx, struct{}{})
		if err != nil {
			continue // nothing to write any more, or the outbox was restarted, or the store stops
		}
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		if v := a.settle(ctx, &j); v.outcome != inFlight {
			v.number = j.number
			a.report(ctx, v)
		}
	}
	return nil
}

func (a *sender) see(q store.Sequence) {
	a.seq = q
	a.known.Set(q.Last())
}

// leaveTimeout bounds how long a verdict is told when the store stops.
const leaveTimeout = time.Second

// report has the caller of a write told, also when the store is just stopping: the outbox stops
// after the sender.
func (a *sender) report(ctx context.Context, v verdict) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		store.Pause(lasting, leaveTimeout)
		cancel()
	})
	defer stop()
	for lasting.Err() == nil {
		_, err := a.verdicts.Call(lasting, v)
		if err == nil {
			return
		}
		if errors.Is(err, errNotLogged) {
			store.Pause(lasting, time.Second)
		}
	}
}

// settle tries until it is known what became of a write. The verdict is inFlight if the store stops
// before.
func (a *sender) settle(ctx context.Context, j *job) verdict {
	for ladder := store.NewLadder(); ; {
		v, err := a.try(ctx, j)
		if v != nil {
			a.store.Succeeded("config write")
			return *v
		}
		wait := ladder.NextBackOff()
		if errors.Is(err, store.ErrRefused) { // another was first, and this write may try again
			wait /= 20
		} else {
			a.failedAt = time.Now()
			a.store.Failed("config write", err, wait)
		}
		if !store.Pause(ctx, wait) {
			return verdict{outcome: inFlight}
		}
	}
}

// move moves the sequence key and nothing else.
func (a *sender) move(ctx context.Context, q store.Sequence) error {
	name := store.NewName()
	res, err := a.store.Txn(context.WithoutCancel(ctx), q.Move(name))
	if err != nil {
		return err
	}
	e, _ := res.Entry(q.Key)
	a.see(q.Moved(name, e.ModifyIndex))
	return nil
}

// try sends a write, once, unless an earlier try settles it. Without a verdict the error says why.
func (a *sender) try(ctx context.Context, j *job) (*verdict, error) {
	if j.state == inFlight {
		if _, v, err := a.look(ctx, j); v != nil || err != nil {
			return v, err
		}
	}
	if j.abandoned() {
		return a.refuse(ctx, j, context.Cause(j.call.ctx))
	}
	if j.state == notSent {
		j.since = a.seq
	}
	ops, at := a.txn(j)
	cached := a.data.Get().index
	// The end of the store does not cut the call short. A call is bounded, and its answer says what
	// became of the write.
	res, err := a.store.Txn(context.WithoutCancel(ctx), append(ops, a.seq.Move(j.name))...)
	j.state = inFlight
	condition, isRefused := errors.AsType[*store.RefusedError](err)
	switch {
	case err == nil:
		return a.applied(j, res, cached), nil
	case permanent(err):
		return a.refuse(ctx, j, err)
	case !isRefused || condition.Op < 0 || condition.Op >= len(at):
		return nil, err // no answer, or the sequence key has moved
	}
	entries, v, failed := a.look(ctx, j)
	if v != nil || failed != nil {
		return v, failed
	}
	if i := at[condition.Op]; j.ops[i].guard || !a.mayReplace(j) {
		return a.refuse(ctx, j, conflict(j, i, entries))
	}
	// Others have written since the cache was looked at. This write replaces whatever there is.
	for i := range j.ops {
		j.ops[i].base, j.ops[i].flags = entries[i].ModifyIndex, entries[i].Flags
	}
	return nil, err
}

// mayReplace tells whether a write without a condition may replace what others have written since
// it was taken in: somebody waits for it, and it did not have to wait for Consul. It is asked after
// the look at what others have written: a caller who has left by then would not hear of that.
func (a *sender) mayReplace(j *job) bool {
	return !j.late && j.awaited() && a.failedAt.Before(j.taken)
}

// permanent tells whether every further try of the request would be refused as well.
func permanent(err error) bool {
	return errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid)
}

// look reads the keys of a write that was sent, and the sequence key, at one moment. There is a
// verdict if the write was applied, or if nobody can tell.
func (a *sender) look(ctx context.Context, j *job) ([]store.Entry, *verdict, error) {
	ops := make([]store.Op, 0, len(j.ops)+1)
	for _, o := range j.ops {
		ops = append(ops, store.GetOrEmpty(a.keys.ConfigKey(o.key)))
	}
	res, err := a.store.Txn(ctx, append(ops, store.GetOrEmpty(a.seq.Key))...)
	switch {
	case permanent(err):
		return nil, doubt(j, err), nil
	case err != nil:
		return nil, nil, err
	}
	entries := res.Entries[:len(j.ops)]
	a.see(store.SequenceIn(a.seq.Key, res.Entries[len(j.ops)]))
	switch applied, known := a.seq.Outcome(j.since, j.name); {
	case applied:
		return entries, a.found(j, entries), nil
	case !known:
		return entries, doubt(j, fmt.Errorf("%s, which would tell, was written over by many others, "+
			"or Consul was restored", a.seq.Key)), nil
	}
	return entries, nil, nil
}

// doubt is the verdict when nobody can tell whether a write was applied.
func doubt(j *job, why error) *verdict {
	return &verdict{outcome: unknown, err: fmt.Errorf("%w: config key %q: the write may have been "+
		"applied: %v: read the key and decide anew", ErrUnreachable, j.ops[0].key, why)}
}

// refuse is the verdict about a write that was not applied. What was sent of it is made void
// before: no copy of it is applied once its caller was told.
func (a *sender) refuse(ctx context.Context, j *job, why error) (*verdict, error) {
	if j.state == inFlight {
		if err := a.move(ctx, a.seq); err != nil && !permanent(err) {
			return nil, err // it may have been applied meanwhile
		}
	}
	return &verdict{outcome: refused, err: why}, nil
}

func conflict(j *job, i int, entries []store.Entry) error {
	e := &ConflictError{What: "config key", Key: j.ops[i].key, Want: j.ops[i].wants(),
		Have: entries[i].ModifyIndex}
	if !j.ops[i].guard {
		e.Why = "the write had to wait, and another came first"
	}
	return e
}

// applied is the verdict when Consul's answer says that it has applied a write. Cached is the index
// of the cache when it was sent.
func (a *sender) applied(j *job, res store.Result, cached uint64) *verdict {
	e, _ := res.Entry(a.seq.Key)
	a.see(a.seq.Moved(j.name, e.ModifyIndex))
	a.wrote(e.ModifyIndex, cached)
	v := &verdict{outcome: applied, at: e.ModifyIndex, keys: map[string]uint64{}}
	for _, op := range j.ops {
		if op.verb != verbExpect {
			got, _ := res.Entry(a.keys.ConfigKey(op.key))
			v.keys[op.key] = got.ModifyIndex // 0: deleted
		}
	}
	return v
}

// found is the verdict when the sequence key tells that a write was applied, by what was read of
// its keys with it: others may have changed them since.
func (a *sender) found(j *job, entries []store.Entry) *verdict {
	v := &verdict{outcome: applied, keys: map[string]uint64{}}
	if a.seq.Last() == j.name {
		v.at = a.seq.Index()
	}
	a.wrote(a.seq.Index(), a.data.Get().index) // or the watch has brought it: no matter
	for i, op := range j.ops {
		switch e := entries[i]; {
		case op.verb == verbExpect:
		case op.verb == verbRemove:
			v.keys[op.key] = 0
		case bytes.Equal(e.Value, op.value) && e.ModifyIndex != 0 &&
			(v.at == 0 || e.ModifyIndex <= v.at):
			v.keys[op.key] = e.ModifyIndex
		case v.at != 0: // others have written since
			v.keys[op.key] = v.at
		default: // the index is not known: a write that is based on this one is a conflict
		}
	}
	return v
}
