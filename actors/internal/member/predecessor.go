package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// lastAck reads what the last registrant left.
func (a *MembershipKeeper) lastAck(ctx context.Context) (lastAck, error) {
	e, err := a.ack.read(ctx)
	if err != nil || e.ModifyIndex == 0 {
		return lastAck{}, err
	}
	ack, _, err := a.Keys.ReadAck(e)
	if err != nil {
		a.Log.Warn("strange-key-overwritten", "key", e.Key, "err", err)
	}
	return lastAck{found: true, index: e.ModifyIndex, ack: ack.Ack, bad: ack.Unreadable}, nil
}

// inherits finds out about the leases that were held under this id before.
func (a *MembershipKeeper) inherits(ctx context.Context, old lastAck) (inheritance, error) {
	i := inheritance{now: time.Now(), old: old, ttl: a.TTL, instance: a.Process.Instance,
		clearAt: a.out.Get().ClearAt}
	if !old.found || old.bad {
		var err error
		if i.old.sentinel, err = a.Store.SentinelLease(ctx, a.ID); err != nil {
			return i, err
		}
	}
	if old.found {
		i.liveness = a.Liveness(old.ack.By)
		return i, nil
	}
	keys, err := a.Store.ListKeys(ctx, a.Keys.AssignmentsOf(a.ID), "")
	i.keys = slices.ContainsFunc(keys, func(key string) bool {
		_, item, ok := a.Keys.ParseAssignment(key)
		return ok && item != ""
	})
	return i, err
}

// keptAlive tells whether the session that is waited for was renewed during the wait.
func (a *MembershipKeeper) keptAlive(ctx context.Context, ttl time.Duration) (bool, error) {
	w := &a.waiting
	switch w.next(time.Now(), a.patience(ttl)) {
	case makeProbe:
		id, _, err := a.Store.CreateSession(ctx, store.SessionOptions{Name: a.SessionName(a.ID) +
			"/probe", TTL: ttl, LockDelay: a.LockDelay})
		if err == nil { // else an earlier one may still be there
			w.probe, a.probe, a.probeEnds = id, id, time.Now().Add(2*ttl)
		}
		return false, err
	case askProbe:
		exists, err := a.Store.SessionExists(ctx, w.probe)
		if err == nil && !exists {
			w.ended = time.Now()
		}
		return false, err
	case keptAlive:
		return true, nil
	}
	return false, nil
}

// endProbe ends the last probe of a member that stops, if that may still exist: the wait for which
// it was made may be over. Where nothing comes back from Consul the stop is not held up for it.
func (a *MembershipKeeper) endProbe(ctx context.Context) {
	if ctx.Err() == nil || a.probe == "" || !time.Now().Before(a.probeEnds) || a.Silent() {
		return
	}
	if err := a.LastCall(ctx, func(ctx context.Context) error {
		return a.Store.DestroySession(ctx, a.probe)
	}); err != nil {
		a.Log.Warn("session-not-destroyed", "session", a.probe, "err", err, "then",
			"it expires by itself within twice its ttl")
	}
}

// patience is how long a session of that TTL is waited for before it is probed.
func (a *MembershipKeeper) patience(ttl time.Duration) time.Duration {
	return 2*ttl + a.LockDelay + expirySlack
}

// ErrIDTaken ends a member whose id another living process has.
var ErrIDTaken = errors.New("member id is taken")

// inTheWay finds the session that holds this member's id: the one that its
// record is locked by, or, where a stranger deleted the record, the last
// registrant's, if that session still exists. It may be renewed for ever and its member be at work.
// An ack that names another member's session is a stranger's: nothing is left of it but the TTL.
func (a *MembershipKeeper) inTheWay(ctx context.Context, s messages.Session, rec store.Entry,
	old *lastAck) (h holder, ok bool, err error) {
	if rec.Session == s.ID {
		return holder{}, false, nil
	} else if rec.Session != "" {
		r, _, err := a.Keys.ReadMember(rec)
		if err != nil {
			a.Log.Warn("strange-key-waited-for", "key", rec.Key, "err", err)
		}
		h = holder{session: rec.Session, address: r.Address, process: r.Process}
		if old.ack.Session == rec.Session {
			h.stopped = old.ack.Stopped
			if old.ack.By.Instance == r.Process.Instance {
				h.process = old.ack.By // it says more: which lock is held for its commands
			}
		}
		made, _, err := a.Store.SessionInfo(ctx, rec.Session)
		h.owner, h.ttl = a.ownerOf(made.Name), max(made.TTL, a.TTL)
		return h, true, err
	}
	if old.ack.Session == "" || old.ack.Session == s.ID {
		return holder{}, false, nil
	}
	made, exists, err := a.Store.SessionInfo(ctx, old.ack.Session)
	h = holder{session: old.ack.Session, process: old.ack.By, ttl: max(made.TTL, a.TTL),
		owner: a.ownerOf(made.Name), stopped: old.ack.Stopped}
	if exists && h.owner == anothers {
		a.Log.Warn("strange-key-overwritten", "key", a.Keys.Ack(a.ID), "why",
			"it names the session of another member")
		old.ack, old.bad = protocol.Ack{TTL: old.ack.TTL}, true
		return holder{}, false, nil
	}
	return h, exists, err
}

// ownerOf tells whose a session of this name is.
func (a *MembershipKeeper) ownerOf(name string) sessionOwner {
	switch {
	case name == a.SessionName(a.ID):
		return thisIDs
	case a.ForeignSession(name, a.ID):
		return anothers
	}
	return anybodys
}

// predecessor deals with who is in the way; it returns when to look again.
func (a *MembershipKeeper) predecessor(ctx context.Context, h holder) (time.Time, error) {
	name := store.Shorten(fmt.Sprintf("process %d on host %q (address %q, session %s)",
		h.process.PID, h.process.Host, h.address, h.session))
	next := h.next(a.Process.Instance, a.Liveness(h.process))
	first := a.waiting.session != h.session
	switch next {
	case endItsSession:
		a.Log.Info("ending-predecessors-session", "predecessor", name)
		if err := a.release(ctx, h); err != nil {
			return time.Time{}, err
		}
		if err := a.Store.DestroySession(ctx, h.session); err != nil {
			return time.Time{}, err
		}
		a.wait(h.session)
		return time.Now().Add(LockPoll(0, 0)), nil
	case refuseID:
		return time.Time{}, a.taken(name, "is alive")
	case waitForLeader:
		if first {
			a.Log.Warn("strange-key-waited-for", "key", a.Keys.Member(a.ID), "why",
				"it is locked by the session of another member", "session", h.session)
		}
		a.wait(h.session)
		return time.Now().Add(time.Second), nil
	}
	if first {
		a.Log.Info("waiting-for-predecessor", "predecessor", name, "until", "its session expires",
			"at_most", (2*a.patience(h.ttl) - a.LockDelay).String(), "longer",
			"by what elections of Consul's add")
	}
	a.wait(h.session)
	if kept, err := a.keptAlive(ctx, h.ttl); err != nil {
		return time.Time{}, err
	} else if kept {
		return time.Time{}, a.taken(name, fmt.Sprintf("has kept it alive for %v",
			time.Since(a.waiting.since).Round(time.Second)))
	}
	return time.Now().Add(time.Second), nil
}

// release takes away what a session has locked that is to be ended: by its end these keys would go
// as well, but nobody could lock them for a lock-delay. The leader key goes only if the process is
// known to be dead: an earlier session of this one may still be at its duty. What is refused or
// denied is left to the session's end.
func (a *MembershipKeeper) release(ctx context.Context, h holder) error {
	left := func(err error) bool {
		return errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrDenied)
	}
	err := a.Store.Goodbye(ctx, protocol.Leaving{Member: a.ID, Session: h.session})
	if err != nil && !left(err) {
		return err
	}
	if a.Liveness(h.process) != protocol.Dead {
		return nil
	}
	if err = a.Store.Resign(ctx, h.session, protocol.AsTheTermSays, true); left(err) {
		return nil
	}
	return err
}

// taken is the error that ends a member whose id is held by somebody.
func (a *MembershipKeeper) taken(by, why string) error {
	return supervisor.Escalate(fmt.Errorf("%w: %q is held by %s, which %s: stop it or choose "+
		"another id", ErrIDTaken, a.ID, by, why))
}

// wait publishes that something is in the way.
func (a *MembershipKeeper) wait(session string) {
	if a.waiting.session != session {
		a.waiting = predecessorWait{session: session, since: time.Now()}
	}
	if m := a.out.Get(); m.Phase != messages.Waiting {
		a.out.Set(messages.Membership{Phase: messages.Waiting, ClearAt: m.ClearAt,
			Inherited: m.Inherited})
	}
}
