package leader

import (
	"cmp"
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
	err   error
}

// confirmAbsent finds the members that have keys or an ack and no record, and makes sure that each
// is really gone before its grace begins:
//
//   - Its record is absent at one point of the log, of which its ack and its sentinel are read as
//     well, consistently. From there on these two say whether it was back.
//   - The session of its last registration, by its ack and its sentinel, no longer exists. A record
//     that somebody deleted leaves the session alive and its member at work, for longer than any
//     grace: such a member registers again by itself within moments.
//
// The grace is counted from the answer, which is later than the session's end. It covers the lease
// that the member may have held then: its own TTL, which may be longer than this leader's. It
// returns when to ask again.
func (a *Assigner) confirmAbsent(ctx context.Context) (again time.Time, err error) {
	members, acks := a.views.members.Get().Items, a.views.acks.Get().Items
	ask, again := a.absences.see(time.Now(), members, acks, a.known)
	found := make([]confirmed, len(ask))
	together(len(ask), func(i int) {
		found[i].err = unanswered("confirming that " + ask[i] + " is gone")
		found[i] = a.confirm(ctx, ask[i])
	})
	for i, c := range found {
		id := ask[i]
		if errors.Is(c.err, store.ErrInvalid) || errors.Is(c.err, store.ErrDenied) {
			a.unreadable.Skip(store.Entry{Key: a.Keys.Ack(id)}, c.err.Error())
			again = actor.Earliest(again, a.absences.failed(id, time.Now()))
			continue
		}
		if c.err != nil { // what was found out about others stands
			err = c.err
			continue
		}
		now := absence{since: c.since, ack: c.index, session: c.ack.Session,
			grace: graceOf(c.ack, a.Settings), stopped: c.ack.Stopped}
		if c.since.IsZero() { // nothing that concerns others is a reason to ask sooner
			now.until = time.Now().Add(AbsencePoll)
			again = actor.Earliest(again, now.until)
		}
		now, vanished := a.absences.found(id, now, a.BrakeHold)
		if n := len(a.known[id]); n > 0 && vanished {
			a.Log.Info("member-vanished", "vanished", id, "items", n, "taken_over_in",
				max(0, time.Until(now.since.Add(now.grace))).Round(time.Millisecond).String())
		}
	}
	return again, err
}

// confirm finds out whether a member is gone. One that has a record is not: the watches will tell.
func (a *Assigner) confirm(ctx context.Context, member string) (c confirmed) {
	ackKey, sentinelKey := a.Keys.Ack(member), a.Keys.AssignmentsOf(member)
	found, err := a.Store.Txn(ctx, store.CheckNotExists(a.Keys.Member(member)),
		store.GetOrEmpty(ackKey), store.GetOrEmpty(sentinelKey))
	if err != nil {
		if !errors.Is(err, store.ErrRefused) {
			c.err = err
		}
		return c
	}
	e, _ := found.Entry(ackKey)
	read, _, _ := a.Keys.ReadAck(e)
	c.ack, c.index = read.Ack, e.ModifyIndex
	e, _ = found.Entry(sentinelKey)
	registered, lease := protocol.ReadSentinel(e.Value)
	if c.ack.Session == "" || c.ack.TTL == 0 { // it was deleted, or written over
		c.ack.Session, c.ack.TTL = cmp.Or(c.ack.Session, registered), lease
	}
	for _, session := range []string{c.ack.Session, registered} {
		if session == "" {
			continue
		}
		if _, alive, err := a.Store.SessionInfo(ctx, session); err != nil || alive {
			c.err = err
			return c
		}
	}
	c.since = time.Now()
	return c
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
