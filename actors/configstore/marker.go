package configstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// marker is what the writer knows of its marker key: see [protocol.Marker].
type marker struct {
	protocol.Marker
	index uint64 // its ModifyIndex; 0: there is none
	held  bool   // this process has it
	taken bool   // another process took it from this one: see [consulWriter.mayTake]
	term  uint64 // Config.Term when that was seen
	seen  uint64 // the marker's index when that was seen
	swept bool   // the markers that nobody needs were deleted, as far as they may be
	begun uint64 // the number of the newest write that this process has begun
}

// claim says whether this store can write.
type claim struct {
	known  bool   // writes are taken in, or refused with err
	number uint64 // of the claim; when it changes another process may have had the marker
	seq    uint64 // the number of the last write that was applied before
	err    error
}

func (a *consulWriter) markerKey() string { return a.keys.ConfigMarker(a.openLog.Load().id) }

// mayBeSwept tells whether others may delete this store's marker while it lives.
func (a *consulWriter) mayBeSwept() bool {
	_, ok := nameless(a.openLog.Load().id)
	return ok
}

func (m *marker) set(v protocol.Marker, index uint64) { m.Marker, m.index = v, index }

// moved takes in that a request of this process has changed the marker. Which writes are in doubt
// is known here: that request may have been sent long ago.
func (m *marker) moved(v protocol.Marker, index uint64) {
	v.Lost = m.Lost
	m.set(v, index)
}

// afterWrite is the marker's value once write seq has been applied.
func (m *marker) afterWrite(seq uint64) protocol.Marker {
	return protocol.Marker{Seq: seq, Claim: m.Claim, By: m.By, Since: time.Now().Unix(),
		Lost: above(seq, m.Lost), Denied: m.Denied}
}

// above is n, or 0 if it is not above seq.
func above(seq, n uint64) uint64 {
	if n > seq {
		return n
	}
	return 0
}

// doubts tells whether nobody can tell what became of the earlier tries of a write.
func (m *marker) doubts(j *job) bool { return j.sent() && j.seq <= m.Lost }

// lose notes that others have deleted the marker or written over it. The next process has to know
// that as well: see [protocol.Marker].Lost.
func (a *consulWriter) lose() {
	a.marker.Lost = max(a.marker.Lost, a.begun())
	a.invalidate()
}

// begun is the number of the newest write that a process with this log may have sent.
func (a *consulWriter) begun() uint64 { return max(a.openLog.Load().last, a.marker.begun) }

// lastWriteIndex is the index of the last write that was applied.
func (m *marker) lastWriteIndex() uint64 {
	if m.At != 0 {
		return m.At
	}
	return m.index
}

// claimMarker takes the marker for this process. From then on Consul refuses what predecessors have
// under way. It tries until it succeeds, and returns false when the store stops.
func (a *consulWriter) claimMarker(ctx context.Context) bool {
	ladder, warned := store.NewLadder(), false
	for {
		err := a.tryClaim(ctx)
		if err == nil {
			a.store.Succeeded("config marker")
			a.claim.Set(claim{known: true, number: a.marker.Claim, seq: a.marker.Seq})
			a.sweep(ctx)
			return true
		}
		wait := ladder.NextBackOff()
		switch {
		case ctx.Err() != nil:
			return false
		case errors.Is(err, ErrTaken):
			if !warned && !a.marker.taken {
				a.log.Error("config-writer-taken", "marker", a.markerKey(), "err", err)
			}
			warned = true
			a.claim.Set(claim{known: true, err: err})
		case errors.Is(err, store.ErrDenied):
			wait = deniedPause
			a.claim.Set(claim{known: true, err: err})
			a.store.Failed("config marker", err, wait)
		default:
			a.store.Failed("config marker", err, wait)
		}
		if !store.Pause(ctx, wait) {
			return false
		}
	}
}

func (a *consulWriter) tryClaim(ctx context.Context) error {
	old, index, err := a.readMarker(ctx)
	if err != nil {
		return err
	}
	me := *a.Process
	if index != 0 && old.By == me && a.marker.Claim == old.Claim && a.marker.Claim != 0 {
		a.marker.set(old, index) // the answer to an earlier claim was lost
		a.marker.held = true
		return nil
	}
	if old.By != (protocol.Process{}) && old.By.Instance != me.Instance &&
		a.liveness(old.By) == protocol.Alive {
		return fmt.Errorf("%w: process %d on this host, which has not stopped (%s): stop it, or "+
			"give each its own name and log",
			ErrTaken, old.By.PID, a.markerKey())
	}
	if a.marker.taken && !a.mayTake(old) {
		return a.takenOver(old)
	}
	// Whoever is admitted now was so when the marker was read. A successor that claims it later moves
	// it, and this claim is refused.
	if err := a.Admit(ctx); err != nil {
		return err
	}
	if old.Claim == 0 && a.begun() != 0 { // its marker was claimed: this is none, or a new one
		a.lose()
	}
	a.marker.Lost = above(old.Seq, max(a.marker.Lost, old.Lost))
	if index == 0 {
		if index, err = a.makeMarker(ctx); err != nil {
			return err
		}
	}
	// An index never comes again, so claims rise even if the marker was deleted and made anew.
	next := protocol.Marker{Seq: old.Seq, At: old.At, Claim: max(old.Claim+1, index), By: me,
		Since: time.Now().Unix(), Lost: a.marker.Lost, Denied: old.Denied}
	if next.At == 0 && next.Seq != 0 {
		next.At = index
	}
	a.marker.set(next, index) // what it holds if it is applied and the answer is lost
	// The end of the store does not cut the call short: it would not know whether it has a marker.
	res, err := a.store.Txn(context.WithoutCancel(ctx), store.CAS(a.markerKey(), next.Encode(), 0,
		index))
	if err != nil {
		return err
	}
	e, _ := res.Entry(a.markerKey())
	a.marker.set(next, e.ModifyIndex)
	a.marker.held, a.marker.taken = true, false
	return nil
}

// makeMarker makes a marker without an owner. Every other request of this store names the marker's
// index and changes it, so a late copy of it has no effect. A late copy of this request can take
// effect, after the marker was deleted. Such a marker says nothing and hinders nobody, and a later
// process sweeps it up.
func (a *consulWriter) makeMarker(ctx context.Context) (index uint64, err error) {
	res, err := a.store.Txn(context.WithoutCancel(ctx), store.Create(a.markerKey(),
		protocol.Marker{Since: time.Now().Unix()}.Encode()))
	if err != nil {
		return 0, err
	}
	e, _ := res.Entry(a.markerKey())
	return e.ModifyIndex, nil
}

// readMarker reads the marker. Its index is 0 if there is none. Only the index of a marker that
// does not parse counts: a stranger wrote it.
func (a *consulWriter) readMarker(ctx context.Context) (m protocol.Marker, index uint64,
	err error) {
	e, found, _, err := a.store.Get(ctx, a.markerKey(), store.Consistent)
	if err != nil || !found {
		return protocol.Marker{}, 0, err
	}
	m, err = protocol.ParseMarker(e.Value)
	if err != nil {
		a.log.Warn("strange-key-replaced", "key", e.Key, "err", err)
		a.lose()
		m = protocol.Marker{}
	}
	return m, e.ModifyIndex, nil
}

// rereadMarker finds out why the marker has changed. known is false when another process has taken
// it.
func (a *consulWriter) rereadMarker(ctx context.Context) (known bool, err error) {
	m, index, err := a.readMarker(ctx)
	switch {
	case err != nil:
		return true, err
	case index != 0 && m.By == a.marker.By && m.Claim == a.marker.Claim && m.Seq >= a.marker.Seq:
		a.marker.moved(m, index)
		return true, nil
	case index == 0:
		if a.mayBeSwept() {
			a.log.Info("config-marker-restored", "key", a.markerKey())
		} else {
			// Another process that stops deletes it as well.
			a.log.Warn("config-marker-restored", "key", a.markerKey(), "do",
				"leave keys below config_log/ alone, and give each process a name of its own")
		}
		a.marker.index = 0
		a.lose()
		a.marker.index, err = a.makeMarker(ctx)
		return true, err
	case m.By == protocol.Process{} || m.By == a.marker.By || m.Claim < a.marker.Claim:
		// A stranger made it anew or wrote over it, or Consul was restored. What this process knows
		// still holds.
		a.log.Warn("config-marker-restored", "key", a.markerKey(), "do",
			"leave keys below config_log/ alone")
		a.marker.index = index
		a.lose()
		return true, nil
	}
	a.marker.held, a.marker.taken, a.marker.term, a.marker.seen = false, true, a.Term(), index
	a.log.Error("config-writer-taken", "marker", a.markerKey(), "by_host", m.By.Host, "by_pid",
		m.By.PID,
		"do", "give each process a name and a log directory of its own")
	a.claim.Set(claim{known: true, err: a.takenOver(m)})
	return false, nil
}

// mayTake tells whether this process may take the marker back from another one: the other one has
// given it up or is dead, or this one was admitted anew since.
func (a *consulWriter) mayTake(m protocol.Marker) bool {
	term := a.Term()
	return m.By == protocol.Process{} || m.By == *a.Process || a.liveness(m.By) == protocol.Dead ||
		term != 0 && (term > a.marker.seen || term != a.marker.term)
}

func (a *consulWriter) takenOver(by protocol.Marker) error {
	return fmt.Errorf("%w: process %d on %s took %s over: give each process a name and a log "+
		"directory of its own",
		ErrTaken, by.By.PID, by.By.Host, a.markerKey())
}

// leaveTimeout bounds the release of the marker when the store stops.
const leaveTimeout = time.Second

// releaseMarker deletes the marker, which voids what is under way. The marker stays while a log has
// writes that need it.
func (a *consulWriter) releaseMarker(ctx context.Context) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	// The answer to a claim may have been lost.
	held := a.marker.held && a.marker.index != 0 ||
		!a.marker.held && a.marker.Claim != 0 && a.stillHeld(own)
	a.marker.held = false
	if !held {
		return
	}
	logged := a.openLog.Load().wal != nil
	ends := true
	if logged {
		_, err := a.logResets.Call(own, endLog)
		if ends = err == nil; !ends {
			a.log.Debug("config-marker-kept", "err", err)
		}
	}
	for {
		op := store.DeleteCAS(a.markerKey(), a.marker.index)
		if !ends {
			op = store.CAS(a.markerKey(), protocol.Marker{Seq: a.marker.Seq,
				At:    a.marker.lastWriteIndex(),
				Claim: a.marker.Claim, Lost: a.marker.Lost,
				Denied: a.marker.Denied}.Encode(), 0, a.marker.index)
		}
		_, err := a.store.Txn(own, op)
		if errors.Is(err, store.ErrRefused) && a.stillHeld(own) {
			continue // a request of this store has moved it, and its answer was lost or not awaited
		}
		if err == nil && ends && logged {
			_, err = a.logResets.Call(own, beginAnew)
		}
		if err != nil {
			a.log.Debug("config-marker-kept", "err", err)
		}
		return
	}
}

// stillHeld reads the marker, and tells whether this process has it and it has moved.
func (a *consulWriter) stillHeld(ctx context.Context) bool {
	m, index, err := a.readMarker(ctx)
	if err != nil || m.By != *a.Process || m.Claim != a.marker.Claim || m.Seq < a.marker.Seq ||
		index == a.marker.index {
		return false
	}
	a.marker.moved(m, index)
	return true
}

// fence changes the marker's index. Once it returns nil Consul applies no earlier try of a write
// any more, and the marker tells whether it has applied one. It tries until it succeeds. Errors:
// [store.ErrDenied], [store.ErrInvalid], that another process has the marker, and that the store
// stops. With the last two the outcome stays unknown.
func (a *consulWriter) fence(ctx context.Context, j *job, ladder *store.Ladder) error {
	for tried := a.marker.index; ; {
		next := protocol.Marker{Seq: a.marker.Seq, At: a.marker.lastWriteIndex(),
			Claim: a.marker.Claim,
			By:    a.marker.By, Round: a.marker.Round + 1, Since: a.marker.Since,
			Lost: a.marker.Lost, Denied: a.marker.Denied}
		res, err := store.Result{}, store.ErrRefused // while there is none
		if a.marker.index != 0 {
			res, err = a.store.Txn(context.WithoutCancel(ctx), store.CAS(a.markerKey(),
				next.Encode(), 0, a.marker.index))
		}
		if err == nil {
			e, _ := res.Entry(a.markerKey())
			a.marker.set(next, e.ModifyIndex)
			return nil
		}
		if errors.Is(err, store.ErrRefused) {
			var known bool
			switch known, err = a.rereadMarker(ctx); {
			case !known:
				return ErrTaken
			case err == nil && a.marker.index != tried:
				return nil // it has moved, by this write or an earlier fence
			case err != nil:
				j.unknown = true // the write itself may have moved it
			}
		}
		switch {
		case permanent(err):
			return err
		case err == nil:
			err = fmt.Errorf("%w: the marker was refused and has not moved", ErrUnreachable)
		}
		wait := a.failed(err, ladder)
		if !store.Pause(ctx, wait) {
			return ctx.Err()
		}
	}
}
