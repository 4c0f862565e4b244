package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/messages"
)

// CheckKeeper keeps a process registered at Consul's agent, as an instance of a service with a
// check that it reports to. What it loses is a faster detection and nothing else: a session ends by
// its TTL where there is no check. See [Binding] for the sessions.
type CheckKeeper struct {
	Store    *Store
	Instance Instance
	TTL      time.Duration // of the sessions
	Log      *slog.Logger
	// Out tells whether the next session can be bound to the check, and of the last report.
	Out *messages.State[messages.Check]
	// Session is that of the process.
	Session messages.Reader[messages.Session]
	// Says is what is shown beside the check.
	Says func() string
	// Register registers the instance; nil: as Instance says.
	Register func(context.Context) error
	// Idle, Busy, Stuck and Registered are for actors; each may be nil. Idle is called before it
	// waits, Busy when it is about to do something, and an error of it is the end. While Stuck
	// returns true nothing is reported. Registered is called when the agent has the check.
	Idle       func(context.Context)
	Busy       func(context.Context) error
	Stuck      func() bool
	Registered func(context.Context)

	there  bool      // it has been registered
	asked  bool      // a registration was sent, so it may have been
	bound  string    // the session that is bound to it
	strays tally     // reports that went to an agent without the check
	wanted time.Time // since when there is no session; zero: there is one
}

// checkAgain is how soon an agent that takes no check is asked again: sessions that are opened
// later can be bound to it.
const checkAgain = time.Minute

// mostStrays is how many reports may go to an agent that does not know the check: it was started
// anew, or, when that goes on, there are several.
const mostStrays = 3

// ReportEvery is the time between two reports to a check of that TTL: so a silence of five sixths
// of the TTL does not end the check.
func ReportEvery(ttl time.Duration) time.Duration { return ttl / 12 }

// Run keeps the instance until ctx ends. It may be called again when it has returned, and goes on
// with the instance that there is. [CheckKeeper.Deregister] takes the instance away.
func (k *CheckKeeper) Run(ctx context.Context) error {
	reports := NewOverlap[report]()
	defer reports.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ladder, every := NewLadder(), ReportEvery(k.Instance.CheckTTL)
	registered, next := k.there, time.Now()
	session := k.Session.Subscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	k.noteSession(k.Session.Get())
	for {
		if k.Idle != nil {
			k.Idle(ctx)
		}
		timer.Reset(time.Until(next))
		var err error
		var sent time.Time // of a report
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			s := session.Take()
			k.noteSession(s)
			switch {
			case s.Check != "":
				next = earlier(next, time.Now().Add(every))
			case s.ID == "" && s.Count > 0 && registered:
				// The next session is wanted at once, and the check may be critical.
				next = time.Now()
			}
			continue
		case r := <-reports.Results:
			if err, sent = r.err, r.sent; err == nil {
				ladder.Reset()
				k.Store.Succeeded("check")
				c := k.Out.Get()
				if now := time.Now(); !c.Reported.IsZero() &&
					now.Sub(c.Reported) >= k.Instance.CheckTTL {
					c.Resumed = now
				}
				if r.sent.After(c.Reported) { // reports may overtake each other
					c.Reported = r.sent
				}
				k.Out.Set(c)
				if registered && c.ID == "" && k.strays.count() <= mostStrays {
					k.offer() // no report has gone astray for long
				}
				continue
			} else if !registered {
				continue // of before
			}
		case <-timer.C:
			if k.Busy != nil {
				if err := k.Busy(ctx); err != nil {
					return err
				}
			}
			next = time.Now().Add(every)
			if k.Stuck != nil && k.Stuck() {
				continue // who renews the session says so
			}
			if registered {
				if reports.Pending() < mostReports {
					reports.Go(ctx, k.report)
				}
				continue
			}
			if err = k.register(ctx); err == nil {
				ladder.Reset()
				k.Store.Succeeded("check")
				registered, k.there = true, true
				// The agent keeps on its disk what a report has said, and nothing of the
				// registration: where it is killed and comes back before the first one, the check
				// is critical.
				next = time.Now()
				if k.strays.count() <= mostStrays {
					k.offer()
				}
				if k.Registered != nil {
					k.Registered(ctx)
				}
				continue
			}
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNotFound):
			registered, wait = false, k.Instance.CheckTTL/40
			k.astray()
		case registered, k.bound != "", errors.Is(err, ErrUnreachable):
			// The session that is bound to the check goes on, and with it the reports.
			if errors.Is(err, ErrDenied) && k.lapsed() {
				k.deniedAt(sent, err)
			}
			wait = min(ladder.NextBackOff(), k.patience())
			k.Store.Failed("check", err, wait)
		default:
			k.without(err.Error())
			wait = checkAgain
		}
		next = time.Now().Add(wait)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lapsed tells whether the check has passed its TTL. Where reports are denied, the agent may not
// bring that into the catalog either, which shows for good that the check passes: each session that
// is bound to it would be given up in its turn.
func (k *CheckKeeper) lapsed() bool {
	return time.Since(k.Out.Get().Reported) >= k.Instance.CheckTTL
}

// deniedAt takes in that a report was denied that was sent then. A Consul server that was started
// anew denies all until it has read the tokens from its log. So what counts is what comes of a
// report when the next session is wanted: until then it is not known whether that can be bound.
func (k *CheckKeeper) deniedAt(sent time.Time, err error) {
	if !k.wanted.IsZero() && !sent.Before(k.wanted) {
		k.without(err.Error())
		return
	}
	if c := k.Out.Get(); k.strays.count() <= mostStrays {
		c.Known, c.ID = false, ""
		k.Out.Set(c)
	}
}

// noteSession takes in the session of the process.
func (k *CheckKeeper) noteSession(s messages.Session) {
	k.bound = ""
	if s.Check != "" {
		k.bound = s.ID
	}
	switch {
	case s.ID != "":
		k.wanted = time.Time{}
	case k.wanted.IsZero():
		k.wanted = time.Now()
	}
}

// patience is how soon at the latest what has failed is followed by the next try: at once while the
// check still passes; soon as long as a session is bound to it, for an agent that comes back tells
// Consul of what it knows, or while there is no session, for the next one is to be bound.
func (k *CheckKeeper) patience() time.Duration {
	switch s := k.Session.Get(); {
	case s.ID != "" && s.Check == "":
		return time.Minute // the ladder's steps are shorter
	case !k.lapsed():
		return k.Instance.CheckTTL / 40
	}
	return ReportEvery(k.Instance.CheckTTL)
}

// errSlow: the agent answers, but too late for the check.
var errSlow = errors.New("the agent is too slow")

// mostSlow is how often an agent may be too slow, one time after another: it may just have begun.
const mostSlow = 3

// register registers the instance, or anew.
func (k *CheckKeeper) register(ctx context.Context) error {
	register := k.Register
	if register == nil {
		register = func(ctx context.Context) error {
			return k.Store.RegisterInstance(ctx, k.Instance)
		}
	}
	for try := 1; ; try++ {
		sent := time.Now()
		err := register(ctx)
		took := time.Since(sent)
		k.asked = k.asked || err == nil || OutcomeUnknown(err)
		if err != nil || took <= k.Instance.CheckTTL/3 {
			return err
		}
		if try == mostSlow {
			return fmt.Errorf("%w: it took %v to register this process", errSlow,
				took.Round(time.Millisecond))
		}
	}
}

// mostReports is how many reports may be under way: the next one does not wait for them, for a way
// that takes its time delivers them all the same, and one that has lost a packet never will.
const mostReports = 7

// report is what came of one.
type report struct {
	sent time.Time
	err  error
}

// report says that the process is there.
func (k *CheckKeeper) report(ctx context.Context) report {
	call, cancel := context.WithTimeout(ctx, k.Instance.CheckTTL/2)
	defer cancel()
	sent := time.Now()
	return report{sent, k.Store.Contain("report check", func() error {
		return k.Store.ReportInstance(call, k.Instance, k.Says())
	})}
}

// offer says that the next session can be bound to the check.
func (k *CheckKeeper) offer() {
	c := k.Out.Get()
	c.Known, c.ID = true, k.Instance.CheckID()
	if c.Reported.IsZero() { // later the check keeps the state that it has
		c.Reported = time.Now()
	}
	k.Out.Set(c)
}

// astray takes in that an agent answered that does not know the check.
func (k *CheckKeeper) astray() {
	if k.strays.more() > mostStrays {
		k.without("several agents answer at the address of Consul, and only one of them has the " +
			"check: give the address of this host's agent")
	}
}

// without says that the next session will be bound to no check.
func (k *CheckKeeper) without(why string) {
	c := k.Out.Get()
	if !c.Known || c.ID != "" {
		sayNoCheck(k.Log, why, k.TTL, k.Instance.CheckTTL)
	}
	c.Known, c.ID = true, ""
	k.Out.Set(c)
}

// sayNoCheck logs that the next session is bound to no check, and what that costs.
func sayNoCheck(log *slog.Logger, why string, ttl, checkTTL time.Duration) {
	log.Warn("no-check", "why", why, "then", fmt.Sprintf(
		"who dies is noticed by its session's ttl alone, after up to %v in place of %v", 2*ttl,
		checkTTL))
}

// Deregister takes the instance away: the last step of a clean stop, when its session is over.
func (k *CheckKeeper) Deregister(ctx context.Context) {
	if !k.there && !k.asked {
		return
	}
	if err := k.Store.DeregisterInstance(ctx, k.Instance); err != nil && k.there {
		k.Log.Warn("instance-not-deregistered", "instance", k.Instance.ID, "err", err, "then",
			"Consul takes it away a minute after its check has turned critical")
	}
	k.Out.Set(messages.Check{})
}
