package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// Binding chooses the check that the next session is bound to. It belongs to who renews the session.
// Not for concurrent use.
type Binding struct {
	Store    Store
	CheckTTL time.Duration                // 0: no check
	TTL      time.Duration                // of the sessions
	Check    messages.Reader[facts.Check] // of the [CheckKeeper]
	Log      *slog.Logger

	since time.Time // since when a session is wanted, and Consul answers
}

// noSession is the id of no session: asking for it shows whether Consul answers.
const noSession = "00000000-0000-0000-0000-000000000000"

// Choose returns the check of the session that is about to be opened; empty: none. While it returns
// a time, ask again when the check has changed, or then.
func (b *Binding) Choose(ctx context.Context) (check string, wait time.Time) {
	if b.CheckTTL == 0 {
		return "", time.Time{}
	}
	if b.since.IsZero() {
		if !b.Check.Get().Known {
			_, _, err := b.Store.SessionInfo(ctx, noSession)
			if errors.Is(err, ErrUnreachable) {
				return "", time.Now().Add(min(ReportEvery(b.CheckTTL), time.Second))
			}
		}
		b.since = time.Now()
	}
	c := b.Check.Get()
	until := b.since.Add(b.patience(c.Known))
	switch late := !time.Now().Before(until); {
	case c.Known && c.ID == "":
		return "", time.Time{} // its keeper has said why
	case late:
		sayNoCheck(b.Log, "Consul's agent has not taken the check, or has not brought it into "+
			"Consul's catalog; the agent's log says why", b.TTL, b.CheckTTL)
		return "", time.Time{}
	case !c.Known:
		return "", until
	}
	return c.ID, time.Time{}
}

// Tried takes in what came of opening a session.
func (b *Binding) Tried(err error) {
	if !errors.Is(err, ErrNoCheck) {
		b.since = time.Time{} // opened; or Consul is away, and its agent has time when it is back
	}
}

// patience is how long a check is waited for when a session is opened: nothing is done without a
// session. An agent that takes a check has brought it into the catalog within a second or two; one
// that leaves goes on answering for 5 s by default, and brings nothing there.
func (b *Binding) patience(known bool) time.Duration {
	if !known { // it takes one registration at a time, and there may be many
		return 20 * time.Second
	}
	return min(max(b.CheckTTL, 7*time.Second), 10*time.Second)
}
