package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/messages"
)

// Binding chooses the check that the next session is bound to, and knows when a session that is
// bound to one can be counted on. It belongs to who renews the session: only that one knows which
// sessions Consul has ended. Not for concurrent use.
type Binding struct {
	Store    *Store
	CheckTTL time.Duration                   // 0: no check
	TTL      time.Duration                   // of the sessions
	Check    messages.Reader[messages.Check] // of the [CheckKeeper]
	Log      *slog.Logger

	// since is since when a session is wanted that is bound to a check, and Consul answers.
	since   time.Time
	lost    tally // sessions that were bound to a check
	without bool  // the log says that there were too many of them
	looks   *Overlap[look]
}

// look is what came of a look whether a session exists.
type look struct {
	there bool
	err   error
}

// mostLost is how many sessions that are bound to a check may end although this process lives: the
// way to the agent is too slow for the check, or the machine too busy.
const mostLost = 2

// Quiet tells whether the agent was away for longer than the check lasts. Should the session still
// be there when it is back, it ends with the check as soon as that is in the catalog, unless a
// report comes before: until then it gives no lease, or work would begin in vain.
func (b *Binding) Quiet(s messages.Session) bool {
	return s.Check != "" && time.Since(b.Check.Get().Reported) > b.CheckTTL
}

// Gone asks, while it is quiet, whether the session is over by now. It returns when to ask again:
// the check may have changed before.
func (b *Binding) Gone(ctx context.Context, s messages.Session) (gone bool, again time.Time) {
	again = time.Now().Add(min(ReportEvery(b.CheckTTL), 5*time.Second))
	x := b.look(ctx, s.ID)
	return x.err == nil && !x.there, again
}

// look asks Consul whether a session exists. It waits no longer for a transport that does not heed
// its context than for another one: who renews the session has other things to do.
func (b *Binding) look(ctx context.Context, id string) look {
	const what = "session info"
	if b.looks == nil {
		b.looks = NewOverlap[look]()
	}
	if b.looks.Pending() >= mostLeft {
		return look{err: unreachable(what, "the transport has not come back from any of its calls")}
	}
	own, cancel := context.WithTimeout(ctx, b.Store.callTimeout+overdueBy)
	defer cancel()
	b.looks.Go(own, func(own context.Context) (x look) {
		x.err = b.Store.Contain(what, func() (err error) {
			x.there, err = b.Store.SessionExists(own, id)
			return err
		})
		return x
	})
	select {
	case x := <-b.looks.Results:
		return x
	case <-own.Done():
		return look{err: unreachable(what, "the transport has not come back in time")}
	}
}

// Wait returns when no look is under way any more: after the last call, whose context has ended.
func (b *Binding) Wait() {
	if b.looks != nil {
		b.looks.Wait()
	}
}

// Ended takes in that Consul has ended the session.
func (b *Binding) Ended(s messages.Session) {
	if s.Check != "" {
		b.lost.more()
	}
}

// Choose returns the check of the session that is about to be opened; empty: none. While it returns
// a time that has to be waited for: it is not known yet whether there is one.
func (b *Binding) Choose(ctx context.Context) (check string, wait time.Time) {
	if b.CheckTTL == 0 {
		return "", time.Time{}
	}
	was := b.without
	if b.without = b.lost.count() >= mostLost; b.without {
		if !was {
			b.say(fmt.Sprintf("%d sessions have ended with it although this process lives",
				b.lost.count()))
		}
		return "", time.Time{}
	}
	if b.since.IsZero() {
		if !b.Check.Get().Known && !b.answers(ctx) {
			return "", time.Now().Add(min(ReportEvery(b.CheckTTL), time.Second))
		}
		b.since = time.Now()
	}
	switch c, late := b.Check.Get(), time.Since(b.since) >= b.patience(); {
	case !c.Known && !late:
		return "", b.since.Add(b.patience())
	case !c.Known:
		b.say("Consul answers, and its agent has not taken the check: something on the way to it " +
			"does not pass on what is below /v1/agent/")
		return "", time.Time{}
	case c.ID != "" && late:
		b.say("the agent does not bring it into Consul's catalog: it may be about to leave, or " +
			"not reach Consul's servers, or be of another datacenter; its log says which")
		return "", time.Time{}
	default:
		return c.ID, time.Time{}
	}
}

// answers asks Consul for anything. One that has just come will have the check in a moment.
func (b *Binding) answers(ctx context.Context) bool {
	x := b.look(ctx, "00000000-0000-0000-0000-000000000000")
	return !errors.Is(x.err, ErrUnreachable)
}

// Tried takes in what came of opening a session.
func (b *Binding) Tried(err error) {
	if !errors.Is(err, ErrNoCheck) {
		b.since = time.Time{} // opened; or Consul is away, and counts when it is back
	}
}

// mostPatience bounds how long a check is waited for: nothing is done without a session. An agent
// that takes a check has brought it into the catalog within a second or two.
const mostPatience = 10 * time.Second

// leastPatience is longer than an agent that leaves goes on answering (Consul's leave_drain_time is
// 5 s by default). It takes registrations until then, and brings no check into the catalog that a
// session could be bound to. A session without one, opened through it, would be noticed by nobody
// when the agent has gone, until twice its TTL is over.
const leastPatience = 7 * time.Second

// patience is how long a check is waited for when a session is opened.
func (b *Binding) patience() time.Duration {
	return min(max(b.CheckTTL, leastPatience), mostPatience)
}

func (b *Binding) say(why string) { sayNoCheck(b.Log, why, b.TTL, b.CheckTTL) }
