package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// lastAck is this member's acks key as its last registrant left it: it outlives
// that one's record and says who it was.
type lastAck struct {
	found bool
	index uint64
	ack   protocol.Ack
	bad   bool // found, and not readable
}

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

// clearAt tells when items that this member inherits may be started or released;
// the zero time: at once. A predecessor with this id may be frozen, or have had
// its session ended early, and still be inside its lease: then they may not,
// until its TTL after this registration has passed.
//
// There is nothing to wait for when no such lease can be: when the last registrant had nothing to
// wait for itself any more (acks say so: Clear) and is this very process, or known to be dead, or
// said itself that all its work has ended (Stopped); or when it said goodbye, or the leader has
// reaped it: then its acks key is gone and so are all its keys. "Clear" is what makes this hold
// along a chain of predecessors: one that died while it was still waiting for its own predecessor
// passes the wait on.
func (a *MembershipKeeper) clearAt(ctx context.Context, old lastAck) (time.Time, error) {
	now := time.Now()
	full := now.Add(a.inheritWait(old))
	switch {
	case !old.found:
		keys, err := a.Store.ListKeys(ctx, a.Keys.AssignmentsOf(a.ID), "")
		if err != nil {
			return full, err
		}
		for _, key := range keys {
			if _, item, ok := a.Keys.ParseAssignment(key); ok && item != "" {
				return full, nil
			}
		}
		return time.Time{}, nil
	case old.bad:
		return full, nil
	case old.ack.Stopped && old.ack.Clear:
		return time.Time{}, nil
	case old.ack.By.Instance == a.Process.Instance && old.ack.By.Instance != "":
		if mine := a.out.Get().ClearAt; old.ack.Clear || (!mine.IsZero() && !now.Before(mine)) {
			return time.Time{}, nil
		} else if !mine.IsZero() {
			return mine, nil
		}
		return full, nil
	case (old.ack.Clear || mutations.Broken("clear-not-chained")) &&
		a.Liveness(old.ack.By) == protocol.Dead:
		return time.Time{}, nil
	}
	return full, nil
}

// inheritWait is the longest lease that a predecessor may hold.
func (a *MembershipKeeper) inheritWait(old lastAck) time.Duration { return max(a.TTL, old.ack.TTL) }

// predecessorWait remembers what is being waited for, to say it once.
type predecessorWait struct {
	session string
	since   time.Time

	probe string    // a session, see keptAlive
	ended time.Time // when that was seen to have ended
}

// expirySlack is for what Consul takes to end a session whose time is over.
const expirySlack = 5 * time.Second

// keptAlive tells whether the session that is waited for has been renewed during the wait. Consul
// lets a silent one live for twice its TTL, but an election of its own starts that time anew, so
// the wait's length says nothing. A probe does: a session made now, whose TTL is as long, and which
// nobody renews. When it has ended and the other has not, then that one was renewed since:
// elections gave time to both.
func (a *MembershipKeeper) keptAlive(ctx context.Context, old lastAck) (bool, error) {
	w := &a.waiting
	switch {
	case w.probe == "":
		id, _, err := a.Store.CreateSession(ctx, store.SessionOptions{Name: a.Service + "/" + a.ID +
			"/probe", TTL: a.inheritWait(old), LockDelay: a.LockDelay})
		w.probe = id
		return false, err
	case w.ended.IsZero():
		exists, err := a.Store.SessionExists(ctx, w.probe)
		if err == nil && !exists {
			w.ended = time.Now()
		}
		return false, err
	}
	return time.Since(w.ended) > expirySlack, nil
}

// ErrIDTaken ends a member whose id another living process has.
var ErrIDTaken = errors.New("member id is taken")

// holder is who is in the way of a registration.
type holder struct {
	session string
	name    string // of the session
	address string
	process protocol.Process
}

// inTheWay finds the session that holds this member's id: the one that its
// record is locked by, or, where a stranger deleted the record, the last
// registrant's, if that session still exists. It may be renewed for ever and its member be at work.
// An ack that names another member's session is a stranger's: nothing is left of it but the TTL.
func (a *MembershipKeeper) inTheWay(ctx context.Context, s messages.Session, rec store.Entry,
	old *lastAck) (holder, bool, error) {
	if rec.Session != "" {
		r, _, err := a.Keys.ReadMember(rec)
		if err != nil {
			a.Log.Warn("strange-key-waited-for", "key", rec.Key, "err", err)
		}
		process := r.Process
		if old.ack.Session == rec.Session && old.ack.By.Instance == process.Instance {
			process = old.ack.By // it says more: which lock is held for its commands
		}
		if rec.Session == s.ID {
			return holder{}, false, nil
		}
		name, _, err := a.Store.SessionName(ctx, rec.Session)
		return holder{rec.Session, name, r.Address, process}, true, err
	}
	if old.ack.Session == "" || old.ack.Session == s.ID {
		return holder{}, false, nil
	}
	name, exists, err := a.Store.SessionName(ctx, old.ack.Session)
	if exists && a.ForeignSession(name, a.ID) {
		a.Log.Warn("strange-key-overwritten", "key", a.Keys.Ack(a.ID), "why",
			"it names the session of another member")
		old.ack, old.bad = protocol.Ack{TTL: old.ack.TTL}, true
		return holder{}, false, nil
	}
	return holder{session: old.ack.Session, name: name, process: old.ack.By}, exists, err
}

// predecessor deals with who is in the way. A dead process's session is ended
// at once. A living one keeps the id: this one refuses to start. One on another
// host cannot be asked: its session expires if it is dead; if it does not expire
// in all that time it is not.
//
// A stranger may have locked the record with the session of another member, which is never ended
// here: the leader takes such a record away.
func (a *MembershipKeeper) predecessor(ctx context.Context, who holder, old lastAck) (time.Time,
	error) {
	if a.ForeignSession(who.name, a.ID) {
		if a.waiting.session != who.session {
			a.Log.Warn("strange-key-waited-for", "key", a.Keys.Member(a.ID), "why",
				"it is locked by the session of another member", "session", who.session)
		}
		a.wait(who.session)
		return time.Now().Add(time.Second), nil
	}
	alive := a.Liveness(who.process)
	if who.process.Instance == a.Process.Instance && who.process.Instance != "" {
		// an earlier session of this very process, whose work has ended or is ending
		alive = protocol.Dead
	}
	name := store.Shorten(fmt.Sprintf("process %d on host %q (address %q, session %s)",
		who.process.PID, who.process.Host, who.address, who.session))
	if old.ack.Stopped && who.session == old.ack.Session {
		alive = protocol.Dead // it has only not ended its session
	}
	switch {
	case alive == protocol.Dead && who.name == a.SessionName(a.ID):
		a.Log.Info("ending-predecessors-session", "predecessor", name)
		if err := a.Store.DestroySession(ctx, who.session); err != nil {
			return time.Time{}, err
		}
		a.wait(who.session)
		return time.Now().Add(LockPoll(a.LockDelay)), nil
	case alive == protocol.Alive:
		return time.Time{},
			supervisor.Escalate(
				fmt.Errorf("%w: %q is held by %s, which is alive: stop it or choose another id",
					ErrIDTaken, a.ID, name))
	}
	limit := 2*a.inheritWait(old) + a.LockDelay + expirySlack
	if a.waiting.session != who.session {
		a.Log.Info("waiting-for-predecessor", "predecessor", name, "until", "its session expires",
			"at_most", (2*limit - a.LockDelay).String(), "longer",
			"by what elections of Consul's add")
	}
	a.wait(who.session)
	waited := time.Since(a.waiting.since)
	if waited <= limit {
		return time.Now().Add(time.Second), nil
	}
	if kept, err := a.keptAlive(ctx, old); err != nil {
		return time.Time{}, err
	} else if kept {
		return time.Time{},
			supervisor.Escalate(
				fmt.Errorf("%w: %q is held by %s, which has kept it alive for %v: stop it or "+
					"choose another id",
					ErrIDTaken, a.ID, name, waited.Round(time.Second)))
	}
	return time.Now().Add(time.Second), nil
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
