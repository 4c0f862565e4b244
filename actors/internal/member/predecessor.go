package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// lastRegistrant reads the record, and what the last registrant left, at one point of the log.
// joined is the index of the sequence key of registrations.
func (a *MembershipKeeper) lastRegistrant(ctx context.Context) (rec store.Entry, old lastAck,
	joined uint64, err error) {
	read, err := a.Store.Txn(ctx, store.GetOrEmpty(a.Keys.Member(a.ID)),
		store.GetOrEmpty(a.Keys.Ack(a.ID)), store.GetOrEmpty(a.Keys.AssignmentsOf(a.ID)),
		store.GetOrEmpty(joinKey(a.Keys, a.ID)))
	if err != nil {
		return rec, old, 0, err
	}
	rec, e, sentinel := read.Entries[0], read.Entries[1], read.Entries[2]
	a.sawAck(e)
	if e.ModifyIndex > 0 {
		ack, _, err := a.Keys.ReadAck(e)
		if err != nil {
			a.Log.Warn("unreadable-key-overwritten", "key", e.Key, "err", err)
		}
		old = lastAck{found: true, index: e.ModifyIndex, ack: ack.Ack, bad: ack.Unreadable}
	}
	_, old.sentinel = protocol.ReadSentinel(sentinel.Value)
	return rec, old, read.Entries[3].ModifyIndex, nil
}

// inherits finds out about the leases that were held under this id before.
func (a *MembershipKeeper) inherits(ctx context.Context, old lastAck) (inheritance, error) {
	i := inheritance{now: time.Now(), old: old, ttl: a.TTL, instance: a.Process.Instance,
		clearAt: a.out.Get().ClearAt}
	if old.found {
		i.liveness = a.Liveness(old.ack.By)
		return i, nil
	}
	keys, _, err := a.Store.ListKeys(ctx, a.Keys.AssignmentsOf(a.ID), "")
	i.keys = slices.ContainsFunc(keys, func(key string) bool {
		_, item, ok := a.Keys.ParseAssignment(key)
		return ok && item != ""
	})
	return i, err
}

// endedAlive tells whether a process that says it is of this machine, and is not here, has
// registered under this id after this one, which lives. An ack of before this one's is from a
// snapshot of Consul.
func (a *MembershipKeeper) endedAlive(old lastAck) bool {
	by := old.ack.By
	return a.ack.taken > 0 && old.found && !old.bad && old.ack.Counter > a.ack.taken &&
		!old.ack.Copied && by.Instance != a.Process.Instance && by.SameMachine(a.Process) &&
		a.Settings.Liveness(by) != protocol.Alive
}

// sayCopied writes into the last registrant's ack that this machine runs twice, for that process
// and for those that come after. again: the ack is to be read once more.
func (a *MembershipKeeper) sayCopied(ctx context.Context, old lastAck) (again bool, err error) {
	if !a.Copied.Get() {
		a.Log.Error("machine-runs-twice", "host", a.Process.Host, "why", "a process that says it "+
			"runs here has taken this member's id, and does not run here", "then", "each waits "+
			"for the other's lease", "do", "give each copy of the machine an id of its own")
	}
	a.Copied.Set(true)
	old.ack.Copied = true
	_, err = a.Store.Txn(ctx, store.CAS(a.Keys.Ack(a.ID), old.ack.Encode(), 0, old.index))
	if errors.Is(err, store.ErrDenied) {
		return false, nil
	}
	if errors.Is(err, store.ErrRefused) {
		err = nil
	}
	return true, err
}

// ErrIDTaken ends a member whose id another living process has.
var ErrIDTaken = errors.New("member id is taken")

// inTheWay finds the session that holds this member's id: the one that its record is locked by.
// Where somebody has deleted the record it is the last registrant's, if that session still exists:
// it may be renewed for ever and its member be at work.
func (a *MembershipKeeper) inTheWay(ctx context.Context, s facts.Session, rec store.Entry,
	old lastAck) (h holder, ok bool, err error) {
	switch {
	case rec.Session == s.ID:
		return holder{}, false, nil
	case rec.Session != "":
		r, _, err := a.Keys.ReadMember(rec)
		if err != nil {
			a.Log.Warn("unreadable-key-waited-for", "key", rec.Key, "err", err)
		}
		h = holder{session: rec.Session, address: r.Address, process: r.Process}
		if old.ack.Session == rec.Session {
			h.stopped = old.ack.Stopped
			if old.ack.By.Instance == r.Process.Instance {
				h.process = old.ack.By // it says more: which lock is held for its commands
			}
		}
	case old.ack.Session == "" || old.ack.Session == s.ID:
		return holder{}, false, nil
	default:
		h = holder{session: old.ack.Session, process: old.ack.By, stopped: old.ack.Stopped}
	}
	made, exists, err := a.Store.SessionInfo(ctx, h.session)
	h.named, h.ttl = made.Name == a.SessionName(a.ID), max(made.TTL, a.TTL)
	return h, exists || rec.Session != "", err
}

// predecessor deals with who is in the way; it returns when to look again.
func (a *MembershipKeeper) predecessor(ctx context.Context, h holder) (time.Time, error) {
	name := store.Shorten(fmt.Sprintf("process %d on host %q (address %q, session %s)",
		h.process.PID, h.process.Host, h.address, h.session))
	first := a.waiting.session != h.session
	switch h.next(a.Process.Instance, a.Liveness(h.process)) {
	case endItsSession:
		a.Log.Info("ending-predecessors-session", "predecessor", name)
		if err := a.release(ctx, h); err != nil {
			return time.Time{}, err
		}
		if err := a.Store.DestroySession(ctx, h.session); err != nil {
			return time.Time{}, err
		}
		if a.Liveness(h.process) == protocol.Dead { // else it reports, or is this process
			_ = a.Store.DeregisterInstance(ctx, store.Instance{
				ID: store.InstanceID(a.Service, a.ID, h.process.Instance)})
		}
		a.wait(h.session)
		return time.Now().Add(LockPoll(0, 0)), nil
	case refuseID:
		return time.Time{}, a.taken(name, "is alive")
	}
	a.wait(h.session)
	limit := 2 * (2*h.ttl + a.LockDelay + expirySlack)
	if first {
		a.Log.Info("waiting-for-predecessor", "predecessor", name, "until", "its session expires",
			"at_most", limit.String())
	}
	if waited := time.Since(a.waiting.since); waited > limit {
		why := fmt.Sprintf("has kept it alive for %v", waited.Round(time.Second))
		if a.Copied.Get() {
			why += ", perhaps on a copy of this machine"
		}
		return time.Time{}, a.taken(name, why)
	}
	return time.Now().Add(time.Second), nil
}

// expirySlack is for what Consul takes to end a session whose time is over. The limit of the wait is
// twice what a silent session lasts, for an election of Consul's own starts its time anew.
const expirySlack = 5 * time.Second

// release takes away what a session has locked that is to be ended: by its end these keys would go
// as well, but nobody could lock them for a lock-delay. The leader key goes only if the process is
// known to be dead: an earlier session of this one may still be at its duty. What is refused or
// denied is left to the session's end.
func (a *MembershipKeeper) release(ctx context.Context, h holder) error {
	err := a.Store.Goodbye(ctx, protocol.Leaving{Member: a.ID, Session: h.session})
	if (err == nil || errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrDenied)) &&
		a.Liveness(h.process) == protocol.Dead {
		err = a.Store.Resign(ctx, h.session, protocol.AsTheTermSays, true)
	}
	if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrDenied) {
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
	if m := a.out.Get(); m.Phase != facts.Waiting {
		a.out.Set(facts.Membership{Phase: facts.Waiting, ClearAt: m.ClearAt,
			Inherited: m.Inherited})
	}
}

// predecessorWait is what is being waited for, and since when.
type predecessorWait struct {
	session string
	since   time.Time
}
