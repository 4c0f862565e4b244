package leader

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// What concerns one id, and what Consul or something before it does not do for that id, concerns no
// other: it is left aside for a while, and the leader goes on with the rest.

// aside is what was tried in vain for one id.
type aside struct {
	tries int
	until time.Time // it is not tried again before
}

// longAside is the longest that something is left aside.
const longAside = 30 * time.Second

// failed takes in that a try which began at a moment was in vain, and returns when the next one is
// due: soon at first, for most failures are an election's; after 5 s, and then up to 30 s, while it
// goes on. Where each try takes long as well, the rest has four times as long.
func (x *aside) failed(began, now time.Time) time.Time {
	pause := min(50*time.Millisecond<<min(x.tries, 7), deniedPause)
	if x.tries++; x.tries > 7 {
		pause = min(max(time.Duration(x.tries-6)*deniedPause, 4*now.Sub(began)), longAside)
	}
	x.until = now.Add(pause)
	return x.until
}

// ofOneID returns a function that tells of errors of requests about one id, which come of the same
// round, whether they are about that id alone. A refusal is; what was not answered, or with an
// error, is if Consul answers another question.
func (a *Assigner) ofOneID(ctx context.Context) func(error) bool {
	asked, answers := false, false
	return func(err error) bool {
		if errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrInvalid) {
			return true
		}
		if !errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil {
			return false
		}
		if !asked {
			_, _, _, err := a.Store.Get(ctx, a.Keys.Leader(), store.Consistent)
			asked, answers = true, err == nil
		}
		return answers
	}
}

// leaveAside says, now and then, that something about one id was in vain.
func (a *Assigner) leaveAside(what string, err error, until time.Time) {
	pause := time.Until(until)
	if !errors.Is(err, store.ErrUnreachable) {
		a.Store.Failed(what, err, pause)
		return
	}
	if now := time.Now(); a.asideAt.IsZero() || now.Sub(a.asideAt) >= impossiblePause {
		a.asideAt = now
		a.Log.Warn("left-aside", "what", what, "err", err, "retry_in", pause.String())
	}
}
