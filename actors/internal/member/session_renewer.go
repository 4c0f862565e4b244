package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// SessionRenewer opens this member's Consul session, renews it every Renew, and publishes the
// lease. It takes nothing but a consistent answer that there is no such session for the session's
// end: a Consul that is slow, silent or without a leader ends no session.
type SessionRenewer struct {
	*actor.Base
	out *messages.State[facts.Session]
	// record tells that the member's own record has changed: when it is gone the
	// session may be, and a renewal at once tells sooner than the next one due.
	record messages.Reader[OwnRecord]
	check  messages.Reader[facts.Check] // that new sessions are bound to
	// holdings tells at the end whether work is still running: then the session is
	// left to expire, for its lock is what keeps that work's items from others.
	holdings messages.Reader[facts.Holdings]

	binding store.Binding // to check
	fit     fitness
}

// NewSessionRenewer wires the actor.
func NewSessionRenewer(b *actor.Base, out *messages.State[facts.Session],
	check messages.Reader[facts.Check], record messages.Reader[OwnRecord],
	holdings messages.Reader[facts.Holdings]) *SessionRenewer {
	return &SessionRenewer{Base: b, out: out, check: check, record: record, holdings: holdings,
		binding: store.Binding{Store: b.Store, CheckTTL: b.CheckTTL, TTL: b.TTL, Check: check,
			Log: b.Log}}
}

// Run is the actor: see [supervisor.Child].
func (a *SessionRenewer) Run(ctx context.Context) error {
	defer a.close(ctx)
	renewal := store.Renewal{
		Store: a.Store, Every: a.Renew, Lease: a.Lease, Log: a.Log, Observer: a.Observer,
		Session: store.SessionOptions{Name: a.SessionName(a.ID), TTL: a.TTL,
			LockDelay: a.LockDelay},
	}
	defer renewal.Wait()
	record, check := a.record.Subscribe(), a.check.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	due := time.Now() // a restarted incarnation asks at once whether the session still stands
	held := false     // an actor of this member hangs
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-record.Changed():
			s, own := a.out.Get(), record.Take()
			if s.ID == "" || !own.Known || own.Entry.Session == s.ID || renewal.Failing() {
				continue
			}
			if !own.registered(s.ID) {
				continue // not yet registered under it: the record says nothing about this session
			}
		case <-check.Changed():
			if check.Take(); a.out.Get().ID != "" {
				continue
			}
		case <-timer.At(due):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		s := a.out.Get()
		if held, due = a.hung(held); held {
			continue
		}
		if s.ID == "" {
			var wait time.Time
			if renewal.Session.Check, wait = a.binding.Choose(ctx); !wait.IsZero() {
				due = wait
				continue
			}
		}
		err := a.ask(ctx, &renewal, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			supervisor.Ready(ctx)
		case errors.Is(err, store.ErrInvalid) && s.Count == 0:
			// later it is no setting that was refused
			return supervisor.Escalate(err)
		case errors.Is(err, store.ErrDenied) && s.Count == 0:
			if store.LacksRights(err) {
				err = fmt.Errorf("%w; the rule is session_prefix \"\" { policy = \"write\" } "+
					"(docs/acl.md)", err)
			}
			if err := a.fit.lacks(err); errors.Is(err, ErrUnfit) {
				return err
			}
		case errors.Is(err, store.ErrSessionGone):
			a.ended(s)
		}
		if s.ID == "" {
			a.binding.Tried(err)
		}
		due = renewal.Due(err, a.out.Get().Lease)
	}
}

// hung tells whether an actor of this member hangs, so that the session is not renewed, and when to
// look again. was: it did before.
func (a *SessionRenewer) hung(was bool) (is bool, again time.Time) {
	now := time.Now()
	who, since := a.Stuck(now)
	switch is = who != ""; {
	case is && !was:
		a.Log.Error("actor-stuck", "actor", who, "for", now.Sub(since).Round(time.Second).String(),
			"then", "the session is not renewed, so that others take over what this member holds",
			"do", "see what the actor waits for, or start this member anew")
	case was && !is:
		a.Log.Info("actor-goes-on", "then", "the session is renewed again")
	}
	return is, now.Add(a.Lease / 20)
}

// ask opens or renews the session and publishes it.
func (a *SessionRenewer) ask(ctx context.Context, renewal *store.Renewal,
	s facts.Session) error {
	id, lease, err := renewal.Ask(ctx, s.ID)
	if err != nil {
		return err
	}
	anew := renewal.Failing() // the watches may sit on dead connections
	switch {
	case s.ID == "":
		anew = s.Count > 0
		s.Count++
	case anew:
		s.Reconnects++
	}
	if s.ID == "" {
		s.Check = renewal.Session.Check
	}
	s.ID, s.Lease = id, lease
	a.out.Set(s)
	if anew {
		a.Polls.Renew()
	}
	return nil
}

// ended takes in that Consul has ended the session.
func (a *SessionRenewer) ended(s facts.Session) {
	why := "Consul no longer knows it"
	if stood := a.Store.Stood(); stood > 0 {
		why = "it ended while this process was suspended for " + stood.String()
	}
	a.Log.Warn("session-lost", "session", s.ID, "why", why,
		"lease_left", s.Lease.Left(time.Now()).Round(time.Millisecond).String())
	a.out.Set(facts.Session{Count: s.Count, Reconnects: s.Reconnects})
}

// close destroys the session: the last step of a clean stop, when nothing is
// locked by it any more.
func (a *SessionRenewer) close(ctx context.Context) {
	s := a.out.Get()
	if ctx.Err() == nil {
		return // a crash: the next incarnation goes on with the session
	}
	if s.ID == "" {
		return
	}
	if n := a.holdings.Get().Active(); n > 0 {
		a.Log.Error("session-left-to-expire", "session", s.ID, "still_running", n)
		return
	}
	if err := a.LastCall(ctx, func(ctx context.Context) error {
		return a.Store.DestroySession(ctx, s.ID)
	}); err != nil {
		a.Log.Warn("session-not-destroyed", "session", s.ID, "err", err, "then",
			"it expires by itself within twice its ttl")
	}
	a.out.Set(facts.Session{Count: s.Count, Reconnects: s.Reconnects})
}
