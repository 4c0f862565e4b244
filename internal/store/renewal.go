package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/messages"
)

// Renewal keeps one session at a time: it opens and renews it, and says when the next request is
// due. Who calls it holds the session, its lease and the timer. Not for concurrent use.
type Renewal struct {
	Store   *Store
	Session SessionOptions
	Every   time.Duration // between two renewals
	Lease   time.Duration // that begins with each request: at most the session's TTL, the default
	Log     *slog.Logger

	tries  int // that failed, in a row
	ladder Ladder
}

// Failing tells whether the last request failed.
func (r *Renewal) Failing() bool { return r.tries > 0 }

// Ask renews the session id, or opens one if id is empty. It returns the session's id and the lease
// that begins with the request.
func (r *Renewal) Ask(ctx context.Context, id string) (string, messages.Lease, error) {
	var sent time.Time
	var err error
	if id == "" {
		if id, sent, err = r.Store.CreateSession(ctx, r.Session); err == nil {
			r.Log.Info("session-opened", "session", id, "ttl", r.Session.TTL.String())
		}
	} else {
		sent, err = r.Store.RenewSession(ctx, id, RenewalLimit(r.lease(), r.tries))
		if mutations.Broken("lease-from-reply") {
			sent = time.Now()
		}
	}
	return id, messages.Lease{Start: sent, TTL: r.lease()}, err
}

func (r *Renewal) lease() time.Duration {
	if r.Lease == 0 || mutations.Broken("lease-unkept") {
		return r.Session.TTL
	}
	return min(r.Lease, r.Session.TTL)
}

// Due takes in what came of a request and returns when the next one is due, where lease is the one
// that is held now. It reports failures and the recovery.
func (r *Renewal) Due(err error, lease messages.Lease) time.Time {
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
		r.tries++
		wait := r.ladder.NextBackOff()
		if lease.Valid(now, 0) {
			// While there is a lease to be saved the ladder's long steps would waste it.
			wait = min(wait, r.lease()/20)
		}
		r.Store.Failed("session", err, wait)
		return now.Add(wait)
	}
}
