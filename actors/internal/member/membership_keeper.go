package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// MembershipKeeper keeps members/<me> locked by this member's session: registers, registers again
// when the record or the session is lost, and takes the record away at the end. It writes the ack
// (own_ack.go). What is done about a predecessor stands in predecessor.go.
type MembershipKeeper struct {
	*actor.Base
	out      *messages.State[facts.Membership]
	session  messages.Reader[facts.Session]
	record   messages.Reader[OwnRecord]
	holdings messages.Reader[facts.Holdings]
	capacity messages.Reader[uint64] // the most weight; 0: no limit
	leave    *messages.Mailbox[LeaveOrder, struct{}]
	acks     *messages.Mailbox[AckWrite, struct{}]

	fit  fitness
	ack  ownAck
	view uint64 // of the record when the last registration began
	// sent is the registration that was sent, while it is not known whether it was carried out
	sent    facts.Membership
	waiting predecessorWait
}

// NewMembershipKeeper wires the actor.
func NewMembershipKeeper(b *actor.Base, out *messages.State[facts.Membership],
	session messages.Reader[facts.Session], record messages.Reader[OwnRecord],
	holdings messages.Reader[facts.Holdings], capacity messages.Reader[uint64],
	leave *messages.Mailbox[LeaveOrder, struct{}],
	acks *messages.Mailbox[AckWrite, struct{}]) *MembershipKeeper {
	return &MembershipKeeper{Base: b, out: out, session: session, record: record,
		holdings: holdings, capacity: capacity, leave: leave, acks: acks,
		ack: ownAck{index: unknownIndex}}
}

// LeaveOrder marks the record, so that the leader hands this member nothing more.
type LeaveOrder struct{}

// Run is the actor: see [supervisor.Child].
func (a *MembershipKeeper) Run(ctx context.Context) error {
	leaves, acks := a.leave.Open(), a.acks.Open()
	defer leaves.Close()
	defer acks.Close()
	defer a.goodbye(ctx)
	session, record := a.session.Subscribe(), a.record.Subscribe()
	capacity := a.capacity.Subscribe()
	ladder := store.NewLadder()
	var timer actor.Timer
	defer timer.Stop()
	var next time.Time
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			session.Take()
		case <-record.Changed():
			record.Take()
		case <-capacity.Changed():
			capacity.Take()
		case <-timer.At(next):
		case r := <-leaves.Requests():
			r.Handle(a.markLeaving)
			continue
		case r := <-acks.Requests():
			r.Handle(func(call context.Context, w AckWrite) (struct{}, error) {
				own, cancel := context.WithCancel(ctx) // the requests are this actor's
				defer cancel()
				defer context.AfterFunc(call, cancel)()
				return a.writeAck(own, w)
			})
			continue
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		var err error
		next, err = a.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ladder.Reset()
			a.Store.Succeeded("member record")
		case actor.Transient(err):
			next = a.Retry("member record", err, ladder)
		default:
			return err
		}
	}
}

// step brings the record into line with the session; it returns when to look again.
func (a *MembershipKeeper) step(ctx context.Context) (again time.Time, err error) {
	s, m := a.session.Get(), a.out.Get()
	if s.ID == "" || (m.Session != "" && m.Session != s.ID) {
		m = a.absent()
	}
	if !s.Holds(time.Now(), 0) {
		return time.Time{}, nil
	}
	if m.In(s.ID) {
		rec := a.record.Get()
		facts := recordFacts{session: s.ID, was: m, record: rec, sent: a.view,
			value: a.value(m.Phase == facts.Leaving)}
		switch facts.next() {
		case recordBehind: // or Consul was restored from before it
			if m, err = a.compare(ctx, s, m); err != nil {
				return time.Time{}, err
			}
		case recordLost:
			a.Log.Warn("member-record-lost", "key", a.Keys.Member(a.ID), "held_by",
				rec.Entry.Session, "then", "registering again")
			m = a.absent()
		case recordOverwritten:
			a.Log.Warn("member-record-overwritten", "key", a.Keys.Member(a.ID), "then",
				"writing it again")
			return time.Time{}, a.write(ctx, s.ID, m, rec.Entry.ModifyIndex)
		case recordOutdated:
			return time.Time{}, a.write(ctx, s.ID, m, rec.Entry.ModifyIndex)
		}
	}
	if m.In(s.ID) {
		return a.settle(ctx, s, m)
	}
	if err := a.fit.check(ctx, a.Base); err != nil {
		return time.Time{}, err
	}
	return a.register(ctx, s)
}

// compare looks whether the record is still the one of the registration. A Consul that was restored
// from a snapshot may hold an earlier one of this very session: its index is then what views are
// measured by, for none that comes will be as new as the one that is forgotten.
func (a *MembershipKeeper) compare(ctx context.Context, s facts.Session, m facts.Membership) (
	facts.Membership, error) {
	e, found, _, err := a.Store.Get(ctx, a.Keys.Member(a.ID), store.Consistent)
	if err != nil || !found || e.Session != s.ID || e.CreateIndex == m.Index {
		return m, err
	}
	a.Log.Warn("member-record-went-back", "key", e.Key, "index", e.CreateIndex, "was", m.Index,
		"then", "going on with the earlier registration")
	m.Index, m.Written = e.CreateIndex, e.ModifyIndex
	a.out.Set(m)
	return m, nil
}

func (a *MembershipKeeper) absent() facts.Membership {
	m := a.out.Get()
	if m.Phase != facts.Absent || m.Session != "" {
		m = facts.Membership{ClearAt: m.ClearAt, Inherited: m.Inherited}
		a.out.Set(m)
	}
	return m
}

func (a *MembershipKeeper) value(leaving bool) []byte {
	status := protocol.StatusAlive
	if leaving {
		status = protocol.StatusLeaving
	}
	capacity, idle := a.capacity.Get(), a.Work == nil
	if capacity == actor.NoItems {
		capacity, idle = 0, true
	}
	return protocol.MemberRecord{
		Status: status, Protocol: protocol.Version, Address: a.Address,
		Capacity: capacity, Idle: idle,
		Zone: a.Zone, Version: a.Version, WorkVersion: a.WorkVersion,
		TellChanges: a.Work != nil && a.OnChange != actor.KeepOnChange, Process: a.Process,
	}.Encode()
}

// register takes the record, unless somebody is in the way.
func (a *MembershipKeeper) register(ctx context.Context, s facts.Session) (time.Time, error) {
	a.view = a.record.Get().View
	rec, old, joined, err := a.lastRegistrant(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if a.endedAlive(old) {
		if again, err := a.sayCopied(ctx, old); err != nil || again {
			return time.Now(), err
		}
	}
	if h, ok, err := a.inTheWay(ctx, s, rec, old); err != nil {
		return time.Time{}, err
	} else if ok {
		return a.predecessor(ctx, h)
	}
	before, err := a.inherits(ctx, old)
	if err != nil {
		return time.Time{}, err
	}
	m := facts.Membership{Phase: facts.Registered, Session: s.ID, ClearAt: before.until(),
		Inherited: max(before.lease(), a.out.Get().Inherited)}
	if rec.Session == s.ID {
		// An attempt whose reply was lost, or whose incarnation crashed, had succeeded.
		if old.ack.Clear {
			m.ClearAt = time.Time{}
		}
		a.registered(m, rec.CreateIndex, rec.ModifyIndex)
		return time.Now(), nil
	}
	ack := a.ackValue(s.ID, m.ClearAt.IsZero(), m.Inherited)
	r := registration{keys: a.Keys, id: a.ID, session: s.ID, value: a.value(false), record: rec,
		ack: ack.Encode(), old: old, joined: joined,
		sentinel: protocol.Sentinel(s.ID, ack.Counter, ack.TTL)}
	if !m.ClearAt.IsZero() {
		// Known before it is sent: should the answer be lost, the next try finds this registration
		// in the ack. What this process has waited for under an earlier one says nothing of who was
		// registered since.
		now := a.out.Get()
		now.ClearAt, now.Inherited = m.ClearAt, m.Inherited
		a.out.Set(now)
	}
	return a.take(ctx, r, m, before.lease())
}

// take sends the registration. m is what it makes of this member, lease what a predecessor may
// count on.
func (a *MembershipKeeper) take(ctx context.Context, r registration, m facts.Membership,
	lease time.Duration) (time.Time, error) {
	earlier := a.sent
	a.sent = m
	var result store.Result
	err := a.Answered(ctx, func(ctx context.Context) (err error) {
		result, err = a.Store.Txn(ctx, r.ops()...)
		return err
	})
	if err != nil && !store.OutcomeUnknown(err) {
		a.sent = earlier
	}
	refused, _ := errors.AsType[*store.RefusedError](err)
	switch {
	case refused != nil && refused.Key == joinKey(a.Keys, a.ID):
		// Another member came between. Many may register at one moment, so not all try again at
		// once.
		return time.Now().Add(rand.N(100 * time.Millisecond)), nil
	case errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrSessionGone):
		// A lock-delay, or somebody was quicker. Consul wakes no watch at the end of a lock-delay,
		// so this is asked again by the clock.
		a.wait("lock-delay")
		return time.Now().Add(LockPoll(a.LockDelay, time.Since(a.waiting.since))), nil
	case err != nil:
		return time.Time{}, err
	}
	ack, _ := result.Entry(a.Keys.Ack(a.ID))
	created, ok := result.Entry(a.Keys.Member(a.ID))
	if !ok {
		return time.Time{},
			errors.New("registering: Consul's answer does not hold the record's index")
	}
	a.ack.index = ack.ModifyIndex
	if !m.ClearAt.IsZero() { // counted from when it is known to be registered
		m.ClearAt = actor.Latest(m.ClearAt, time.Now().Add(lease))
	}
	a.registered(m, created.CreateIndex, created.ModifyIndex)
	return time.Now(), nil
}

func (a *MembershipKeeper) registered(m facts.Membership, index, written uint64) {
	a.ack.taken, a.waiting, a.sent = a.ack.n, predecessorWait{}, facts.Membership{}
	m.Index, m.Written = index, written
	attrs := []any{"session", m.Session, "index", index}
	if m.ClearAt.IsZero() {
		m.Inherited = 0
	} else {
		attrs = append(attrs, "inherited_items_wait",
			time.Until(m.ClearAt).Round(time.Millisecond).String())
	}
	a.Log.Info("registered", attrs...)
	a.out.Set(m)
}

// lockPoll is how soon a lock that came after the registration is written down.
const lockPoll = 250 * time.Millisecond

// settle writes down, once it is so, that no earlier lease of this id can be valid any more, and
// which lock this process has: a successor need not wait for the former again, nor for the lease of
// this process when it is dead.
func (a *MembershipKeeper) settle(ctx context.Context, s facts.Session, m facts.Membership) (
	next time.Time, err error) {
	lockless := a.ack.lockless
	if lockless {
		next = time.Now().Add(lockPoll)
	}
	waits := !m.ClearAt.IsZero()
	clear := !waits || !time.Now().Before(m.ClearAt)
	if !clear {
		next = actor.Earliest(next, m.ClearAt)
	}
	if !(waits && clear) && !(lockless && a.Lock() != "") {
		return next, nil
	}
	err = a.raise(ctx, s.ID, clear, m.Inherited)
	if err != nil {
		a.ack.lockless = lockless
	}
	if errors.Is(err, store.ErrRefused) {
		return time.Now().Add(a.Renew), nil // the watch will say what became of the record
	}
	if err != nil || !waits || !clear {
		return m.ClearAt, err
	}
	m.ClearAt, m.Inherited = time.Time{}, 0
	a.out.Set(m)
	return time.Time{}, nil
}

// write puts the record's value in place, keeping the lock and so its CreateIndex, where the record
// has this index: so no copy of the request puts an older value over a newer one. If the index is
// not the record's any more, it is read, and the value written over what is there.
func (a *MembershipKeeper) write(ctx context.Context, session string, m facts.Membership,
	index uint64) error {
	key := a.Keys.Member(a.ID)
	for again := true; ; again = false {
		result, err := a.Store.Txn(ctx,
			store.Rewrite(key, a.value(m.Phase == facts.Leaving), 0, index, session)...)
		if err == nil {
			m.Written = result.Index
			a.out.Set(m)
			return nil
		}
		r, refused := errors.AsType[*store.RefusedError](err)
		if !refused {
			return err
		}
		if r.Op != 1 || !again {
			return nil // the watch will say what became of the record
		}
		e, _, _, err := a.Store.Get(ctx, key, store.Consistent)
		if err != nil {
			return err
		}
		index = e.ModifyIndex
	}
}

// markLeaving writes the mark also where it is set already: an earlier try may have failed. The
// record of a session that is over has none: its holder by now is not to be marked.
func (a *MembershipKeeper) markLeaving(ctx context.Context, _ LeaveOrder) (struct{}, error) {
	m := a.out.Get()
	if !m.In(a.session.Get().ID) {
		return struct{}{}, nil
	}
	m.Phase = facts.Leaving
	a.out.Set(m)
	return struct{}{}, a.write(ctx, m.Session, m, m.Written)
}

// goodbye takes the record away, with the keys of this member that are left (or with KeepItems
// leaves them and says for how long), in one transaction: nobody waits for a grace. It is the
// keeper's last act, after the workers have stopped and the leadership is given up.
//
// So it does where it is not known whether this member is registered: the leader may have handed it
// something, and nothing of that was begun.
//
// While a predecessor may still be inside its lease the inherited keys stay, and the ack says how
// much of that is left: a successor, or who takes the items over, waits for no more. So they do
// while work is still running: then the leader's grace covers them.
func (a *MembershipKeeper) goodbye(ctx context.Context) {
	m, s := a.out.Get(), a.session.Get()
	known := m.In(s.ID)
	if !known {
		if m = a.sent; !m.ClearAt.IsZero() { // as in take
			m.ClearAt = actor.Latest(m.ClearAt, time.Now().Add(m.Inherited))
		}
	}
	if ctx.Err() == nil || !m.In(s.ID) {
		return
	}
	if n := a.holdings.Get().Active(); n > 0 {
		a.Log.Error("member-record-left", "still_running", n, "then",
			"its items stay until the session expires and the grace is over")
		return
	}
	left := time.Duration(0)
	if !m.ClearAt.IsZero() {
		left = max(0, time.Until(m.ClearAt))
	}
	l := protocol.Leaving{Member: a.ID, Session: s.ID, Clear: left == 0}
	if err := a.LastCall(ctx, func(ctx context.Context) error {
		if a.KeepItems == 0 && left == 0 {
			return a.Store.Goodbye(ctx, l)
		}
		ack := a.ackValue(s.ID, left == 0, m.Inherited)
		ack.Stopped, ack.Keep = true, a.KeepItems
		if left > 0 { // of its own lease nothing is left
			ack.TTL = max(left, protocol.MinLease)
		}
		return a.Store.Pause(ctx, l, ack)
	}); err != nil && (known || !errors.Is(err, store.ErrRefused)) {
		a.Log.Warn("goodbye-failed", "err", err, "then",
			"its items move when its session is over and the grace has passed")
	}
	a.out.Set(facts.Membership{})
}

// LockPoll is how soon a lock is tried again that was refused, and has been since refused ago: it
// may be in its delay, which is that of its last holder, and so may be longer than this member's
// own.
func LockPoll(delay, refused time.Duration) time.Duration {
	return min(max(delay/4, refused/4, 50*time.Millisecond), time.Second)
}
