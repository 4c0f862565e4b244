package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/facts"
)

// Renewal keeps one session at a time: it opens and renews it, and says when the next request is
// due. Who calls it holds the session, its lease and the timer. Not for concurrent use.
type Renewal struct {
	Store   Store
	Session SessionOptions
	Every   time.Duration // between two renewals
	Lease   time.Duration // that begins with each request: at most the session's TTL, the default
	Log     *slog.Logger
	// Observer is told of every renewal. Default: nobody is.
	Observer facts.Observer

	tries  int // that failed, in a row
	ladder Ladder
	held   facts.Lease   // of the last renewal that succeeded
	took   time.Duration // that one
	rounds *Overlap[renewed]
}

// Wait returns when nothing is under way any more: after the last Ask, whose context has ended.
// Nothing is, but for a transport that does not heed its context.
func (r *Renewal) Wait() {
	if r.rounds != nil {
		r.rounds.Wait()
	}
}

// Failing tells whether the last request failed.
func (r *Renewal) Failing() bool { return r.tries > 0 }

// Ask renews the session id, or opens one if id is empty. It returns the session's id and the lease
// that begins with the request.
func (r *Renewal) Ask(ctx context.Context, id string) (string, facts.Lease, error) {
	var sent time.Time
	var err error
	if id == "" {
		if id, sent, err = r.Store.CreateSession(ctx, r.Session); err == nil {
			r.Log.Info("session-opened", "session", id, "ttl", r.Session.TTL.String())
		}
	} else {
		begin := time.Now()
		sent, err = r.renew(ctx, id)
		if r.Observer != nil {
			r.Observer.Observe(facts.RenewalEnded{Result: resultOf(err),
				Took: time.Since(begin)})
		}
	}
	lease := facts.Lease{Start: sent, TTL: r.lease()}
	if err == nil {
		r.held, r.took = lease, min(time.Since(sent), r.lease()/4)
	}
	return id, lease, err
}

// mostAsking is how many renewals may be under way at a time, and mostLeft how many may be left
// over: with a transport that does not heed its context they do not end at once, or never.
const (
	mostAsking = 4
	mostLeft   = 64
)

// overdueBy is how long the last renewal is waited for beyond its two deadlines.
const overdueBy = time.Second

// renewed is what came of one renewal.
type renewed struct {
	sent time.Time
	err  error
}

// renew renews the session. Where nothing has come back for an eighth of the lease nothing may ever
// come: a packet was dropped, the connection is dead. So it asks again then, and every twentieth
// from then on, over another connection and without giving up what is under way, for Consul may be
// no more than slow. The first that succeeds counts. It goes on so while there is a lease to be
// saved, and returns when all have failed, or should have.
func (r *Renewal) renew(ctx context.Context, id string) (time.Time, error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.rounds == nil {
		r.rounds = NewOverlap[renewed]()
	}
	limit, pending, overdue := RenewalLimit(r.lease(), r.tries), 0, false
	again, never := time.NewTimer(max(r.lease()/8, 2*r.took)), time.NewTimer(0)
	defer again.Stop()
	defer never.Stop()
	silent := func(text string, ended error) (time.Time, error) {
		return time.Time{}, &callError{kind: ErrUnreachable, op: "session renew " + id,
			ended: ended, unknown: true, text: text}
	}
	if r.rounds.Pending() >= mostLeft {
		return silent("the transport has not come back from any of its calls", nil)
	}
	ask := func() {
		pending++
		never.Reset(2*limit + overdueBy)
		r.rounds.Go(own, func(own context.Context) (x renewed) {
			x.sent, x.err = r.Store.RenewSession(own, id, limit)
			return x
		})
	}
	more := func() {
		if !r.held.Valid(time.Now(), 0) {
			return
		}
		if overdue = r.rounds.Pending() >= mostAsking; !overdue {
			ask()
		}
		again.Reset(max(r.lease()/20, r.took))
	}
	ask()
	for {
		select {
		case <-ctx.Done():
			return silent("gave up waiting: "+ctx.Err().Error(), ctx.Err())
		case <-never.C:
			return silent("the transport has not come back from its calls in time", nil)
		case come := <-r.rounds.Results:
			x := come()
			pending--
			if x.err == nil || errors.Is(x.err, ErrSessionGone) || pending == 0 {
				return x.sent, x.err
			}
			r.failed(x.err, r.lease()/20)
			if overdue {
				more()
			}
		case <-again.C:
			more()
		}
	}
}

func (r *Renewal) lease() time.Duration {
	if r.Lease == 0 {
		return r.Session.TTL
	}
	return min(r.Lease, r.Session.TTL)
}

// Due takes in what came of a request and returns when the next one is due, where lease is the one
// that is held now. It reports failures and the recovery.
func (r *Renewal) Due(err error, lease facts.Lease) time.Time {
	switch now := time.Now(); {
	case err == nil:
		r.tries = 0
		r.ladder.Reset()
		r.Store.Succeeded("session")
		return lease.Start.Add(r.Every)
	case errors.Is(err, ErrSessionGone):
		r.tries = 0
		return now
	default:
		wait := r.ladder.NextBackOff()
		if lease.Valid(now, 0) {
			// While there is a lease to be saved the ladder's long steps would waste it.
			wait = min(wait, r.lease()/20)
		}
		r.failed(err, wait)
		return now.Add(wait)
	}
}

// failed takes in that a request failed, and that the next one comes after wait.
func (r *Renewal) failed(err error, wait time.Duration) {
	r.tries++
	r.Store.Failed("session", err, wait)
}
