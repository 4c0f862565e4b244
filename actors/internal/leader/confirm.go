package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// confirmed is what was found out about one member that is missing.
type confirmed struct {
	since time.Time // from when on it is known to be gone; zero: it is not gone
	index uint64    // of the ack; 0: there is none
	ack   protocol.Ack
	// sentinel is the index of the sentinel, if a registration wrote that, and lease what it names.
	// 0: not known.
	sentinel uint64
	lease    time.Duration
	err      error
}

// confirmAbsent finds the members that have keys or an ack and no record, and makes sure that each
// is really gone before its grace begins:
//
//   - Its record is absent at one point of the log, of which its ack and its sentinel are read as
//     well, consistently. From there on these two say whether it was back.
//   - The session of its last registration no longer exists. A record that a stranger deleted
//     leaves the session alive and its member at work, for longer than any grace: such a member
//     registers again by itself within moments.
//
// The grace is counted from the answer, which is later than the session's end. It covers the lease
// that the member may have held then: its own TTL, which may be longer than this leader's. It
// returns when to ask again.
func (a *Assigner) confirmAbsent(ctx context.Context) (again time.Time, err error) {
	members, acks := a.views.members.Get().Items, a.views.acks.Get()
	ask, again := a.absences.see(time.Now(), members, acks.Items, a.known)
	found := make([]confirmed, len(ask))
	together(len(ask), func(i int) {
		found[i].err = unanswered("confirming that " + ask[i] + " is gone")
		found[i] = a.confirm(ctx, ask[i])
	})
	for i, c := range found {
		id := ask[i]
		ack, _ := acks.Items.Get(id)
		if errors.Is(c.err, store.ErrInvalid) || errors.Is(c.err, store.ErrDenied) {
			a.odd.Skip(store.Entry{Key: a.Keys.Ack(id)}, c.err.Error())
			again = actor.Earliest(again, a.absences.failed(id, ack.ModifyIndex, time.Now()))
			continue
		}
		if c.err != nil { // what was found out about others stands
			err = c.err
			continue
		}
		now := absence{since: c.since, ack: c.index, session: goneSession(c.ack, a.known[id]),
			sentinel: c.sentinel, grace: graceOf(id, c.ack, acks, a.Settings),
			stopped: c.ack.Stopped}
		if c.since.IsZero() { // nothing that concerns others is a reason to ask sooner
			now.until = time.Now().Add(AbsencePoll)
			again = actor.Earliest(again, now.until)
		}
		now, vanished := a.absences.found(id, now, c.lease, a.Grace, a.BrakeHold)
		if n := len(a.known[id]); n > 0 && vanished {
			a.Log.Info("member-vanished", "vanished", id, "items", n, "taken_over_in",
				max(0, time.Until(now.since.Add(now.grace))).Round(time.Millisecond).String())
		}
	}
	return again, err
}

// confirm finds out whether a member is gone.
func (a *Assigner) confirm(ctx context.Context, member string) (c confirmed) {
	ackKey, sentinelKey := a.Keys.Ack(member), a.Keys.AssignmentsOf(member)
	var found store.Result
	for first := true; ; first = false {
		found, c.err = a.Store.Txn(ctx, store.CheckNotExists(a.Keys.Member(member)),
			store.GetOrEmpty(ackKey), store.GetOrEmpty(sentinelKey))
		if c.err == nil {
			break
		}
		if !errors.Is(c.err, store.ErrRefused) {
			return c
		}
		// It is there: the watches will tell. Or it is a record that no session holds, and which
		// would keep its items for ever. A member that lives has its record locked, or writes it
		// again.
		var deleted bool
		deleted, c.err = a.deleteUnlocked(ctx, member)
		if c.err != nil || !deleted || !first {
			return c
		}
	}
	e, _ := found.Entry(ackKey)
	read, _, _ := a.Keys.ReadAck(e)
	c.ack, c.index = read.Ack, e.ModifyIndex
	e, _ = found.Entry(sentinelKey)
	var registered string
	if registered, c.lease = protocol.ReadSentinel(e.Value); registered != "" {
		c.sentinel = e.ModifyIndex
	}
	if c.ack.Session == "" || c.ack.TTL == 0 { // it was deleted, or written over
		c.ack.TTL = c.lease
	}
	alive, err := a.sessionAlive(ctx, member, &c.ack, registered)
	if c.err = err; err == nil && !alive {
		c.since = time.Now()
	}
	return c
}

// deleteUnlocked deletes the record of a member if no session locks it.
func (a *Assigner) deleteUnlocked(ctx context.Context, member string) (deleted bool, err error) {
	e, found, _, err := a.Store.Get(ctx, a.Keys.Member(member), store.Consistent)
	if err != nil || !found || e.Session != "" {
		return false, err
	}
	a.Log.Warn("strange-member-record-deleted", "key", e.Key, "value",
		string(e.Value[:min(len(e.Value), 100)]))
	_, err = a.Store.Txn(ctx, store.CheckIndex(a.Keys.Leader(), a.epoch.Epoch),
		store.DeleteCAS(e.Key, e.ModifyIndex))
	if errors.Is(err, store.ErrRefused) {
		return false, nil
	}
	return err == nil, err
}

// sessionAlive tells whether a session that member may work under still exists: that of its ack,
// and that of its last registration, by its sentinel, where somebody else wrote over the ack. Where
// the ack says nothing or names another member's, it is also that which it has named before, or one
// that its keys were granted to. Then what else the ack says is not the member's either, and
// nothing is left of it but the TTL, which can only make the wait longer.
func (a *Assigner) sessionAlive(ctx context.Context, member string, ack *protocol.Ack,
	registered string) (bool, error) {
	sessions, foreign := map[string]bool{registered: true}, false
	if ack.Session != "" {
		made, exists, err := a.Store.SessionInfo(ctx, ack.Session)
		foreign = exists && a.ForeignSession(made.Name, member)
		if err != nil || exists && !foreign {
			return exists, err
		}
		if foreign {
			*ack = protocol.Ack{Session: ack.Session, TTL: ack.TTL}
		} else {
			delete(sessions, ack.Session)
		}
	}
	if ack.Session == "" || foreign {
		// The keys that it has inherited name its predecessor's session; what its ack has said
		// before names its own.
		known, _ := a.views.acks.Get().Items.Get(member)
		sessions[known.Session] = true
		for _, key := range a.known[member] {
			sessions[key.Session] = true
		}
	}
	delete(sessions, "")
	for session := range sessions {
		made, exists, err := a.Store.SessionInfo(ctx, session)
		if err != nil || exists && !a.ForeignSession(made.Name, member) {
			return exists, err
		}
	}
	return false, nil
}

// asking is how many questions are asked at one time. To confirm that a member is gone takes two
// requests, and its grace begins with their answers: asked about one by one on a Consul that takes
// 200 ms, the last of 30 members would wait 12 s longer than the first.
const asking = 8

// unanswered is what stands of a request if the transport ends its goroutine: nothing was found
// out.
func unanswered(what string) error {
	return fmt.Errorf("%s: %w: the transport ended its goroutine", what, store.ErrUnreachable)
}

// together calls ask for each of 0 to n-1, several at one time. No goroutine of it is left when it
// returns.
func together(n int, ask func(i int)) {
	if n == 1 {
		ask(0)
		return
	}
	var running sync.WaitGroup
	free, broke := make(chan struct{}, asking), make(chan any, n)
	for i := range n {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			defer func() {
				if p := recover(); p != nil {
					broke <- p
				}
			}()
			ask(i)
		})
	}
	running.Wait()
	select {
	case p := <-broke:
		panic(p) // in the assigner's goroutine, where its supervisor can catch it
	default:
	}
}
