package actors

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// sessionRenewer opens this member's Consul session, renews it every Renew, and publishes the
// lease. It takes nothing but a consistent answer that there is no such session for the session's
// end: a Consul that is slow, silent or without a leader ends no session.
type sessionRenewer struct {
	*house
	out *messages.State[messages.Session]
	// record tells that the member's own record has changed: when it is gone the
	// session may be, and a renewal at once tells sooner than the next one due.
	record messages.Reader[ownRecord]
	// holdings tells at the end whether work is still running: then the session is
	// left to expire, for its lock is what keeps that work's items from others.
	holdings messages.Reader[messages.Holdings]
}

func (a *sessionRenewer) run(ctx context.Context) error {
	defer a.close(ctx)
	ladder := store.NewLadder()
	record := a.record.Subscribe()
	var timer alarm
	defer timer.stop()
	due := time.Now() // a restarted incarnation asks at once whether the session still stands
	tries := 0
	held := false // an actor of this member hangs
	for {
		a.rests(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-record.Changed():
			s, own := a.out.Get(), record.Take()
			if s.ID == "" || !own.Known || own.Entry.Session == s.ID || tries > 0 {
				continue
			}
			if !own.registered(s.ID) {
				continue // not yet registered under it: the record says nothing about this session
			}
		case <-timer.at(due):
		}
		if err := a.took(ctx); err != nil {
			return err
		}
		s := a.out.Get()
		if who, since := a.progress.stuck(time.Now()); who != "" && !mutations.Broken("hung-and-renewed") {
			if !held {
				a.log.Error("actor-stuck", "actor", who, "for", time.Since(since).Round(time.Second).String(),
					"then", "the session is not renewed, so that others take over what this member holds", "do", "see what the actor waits for, or start this member anew")
			}
			held, due = true, time.Now().Add(a.TTL/20)
			continue
		}
		if held {
			held = false
			a.log.Info("actor-goes-on", "then", "the session is renewed again")
		}
		var err error
		if s.ID == "" {
			err = a.open(ctx, s)
		} else {
			err = a.renew(ctx, s, tries)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			tries = 0
			ladder.Reset()
			a.store.Succeeded("session")
			supervisor.Ready(ctx)
			due = a.out.Get().Lease.Start.Add(a.Renew)
		case errors.Is(err, store.ErrInvalid) && s.Count == 0: // later it is no setting that was refused
			return supervisor.Escalate(err)
		case errors.Is(err, store.ErrSessionGone):
			a.log.Warn("session-lost", "session", s.ID, "why", "Consul no longer knows it", "lease_left", s.Lease.Left(time.Now()).Round(time.Millisecond).String())
			a.out.Set(messages.Session{Count: s.Count, Reconnects: s.Reconnects})
			tries = 0
			due = time.Now()
		default:
			tries++
			wait := ladder.NextBackOff()
			if s.Lease.Valid(time.Now(), 0) {
				// While there is a lease to be saved the ladder's long steps would waste it.
				wait = min(wait, a.TTL/20)
			}
			a.store.Failed("session", err, wait)
			due = time.Now().Add(wait)
		}
	}
}

func (a *sessionRenewer) open(ctx context.Context, s messages.Session) error {
	id, sent, err := a.store.CreateSession(ctx, store.SessionOptions{
		Name: a.sessionName(a.ID), TTL: a.TTL, LockDelay: a.LockDelay,
	})
	if err != nil {
		return err
	}
	a.log.Info("session-opened", "session", id, "ttl", a.TTL.String())
	a.out.Set(messages.Session{ID: id, Lease: messages.Lease{Start: sent, TTL: a.TTL}, Count: s.Count + 1, Reconnects: s.Reconnects})
	if s.Count > 0 {
		a.polls.Renew()
	}
	return nil
}

func (a *sessionRenewer) renew(ctx context.Context, s messages.Session, tries int) error {
	sent, err := a.store.RenewSession(ctx, s.ID, store.RenewalLimit(a.TTL, tries))
	if err != nil {
		return err
	}
	if tries > 0 {
		s.Reconnects++
	}
	if mutations.Broken("lease-from-reply") {
		sent = time.Now()
	}
	s.Lease.Start = sent
	a.out.Set(s)
	if tries > 0 {
		a.polls.Renew()
	}
	return nil
}

// close destroys the session: the last step of a clean stop, when nothing is
// locked by it any more.
func (a *sessionRenewer) close(ctx context.Context) {
	s := a.out.Get()
	if ctx.Err() == nil || s.ID == "" {
		return // a crash: the next incarnation goes on with the session
	}
	if n := a.holdings.Get().Active(); n > 0 {
		a.log.Error("session-left-to-expire", "session", s.ID, "still_running", n)
		return
	}
	call, cancel := cleanup(ctx, goodbyeTimeout)
	defer cancel()
	if err := a.store.DestroySession(call, s.ID); err != nil {
		a.log.Warn("session-not-destroyed", "session", s.ID, "err", err, "then", "it expires by itself within twice its ttl")
	}
	a.out.Set(messages.Session{Count: s.Count, Reconnects: s.Reconnects})
}

// goodbyeTimeout bounds each of the last calls to a Consul that may not be there.
const goodbyeTimeout = time.Second
