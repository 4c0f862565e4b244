package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// CheckKeeper keeps a process registered at Consul's agent, as an instance of a service with a
// check that it reports to. What it loses is a faster detection and nothing else: a session ends by
// its TTL where there is no check. See [Binding] for the sessions.
type CheckKeeper struct {
	Store Store
	// Instance is what to register. It is registered anew when it changes; its id and its check stay.
	Instance messages.Reader[Instance]
	TTL      time.Duration // of the sessions
	Log      *slog.Logger
	// Session is the one that is bound to the check.
	Session messages.Reader[facts.Session]
	// Out tells whether the next session can be bound to the check, and of the last report.
	Out *messages.State[facts.Check]
	// Says is what is shown beside the check. Warns, if not nil, tells whether the check warns.
	Says  func() string
	Warns func() bool
	// Idle, Busy, Stuck and Registered are for actors; each may be nil. Idle is called before it
	// waits, Busy when it is about to do something, and an error of it is the end. While Stuck
	// returns true nothing is reported. Registered is called when the agent has the check.
	Idle       func(context.Context)
	Busy       func(context.Context) error
	Stuck      func() bool
	Registered func(context.Context)

	asked bool // a registration was sent, so the agent may have the instance
	checkState
}

// checkAgain is how soon an agent that takes no registration is asked again: sessions that are
// opened later can be bound to the check.
const checkAgain = time.Minute

// mostReports is how many reports may be under way: the next one does not wait for them, for a way
// that takes its time delivers them all the same, and one that has lost a packet never will. There
// are two if the check is patient: an agent that is slow has enough to do.
const mostReports = 7

// ReportEvery is the time between two reports to a check of that TTL: so a silence of five sixths
// of the TTL does not end the check. An agent that takes longer is asked less often.
func ReportEvery(ttl time.Duration) time.Duration { return ttl / 12 }

// checkState is what a CheckKeeper knows of its check.
type checkState struct {
	patience
	known   bool          // the agent has the check
	stale   bool          // the agent does not have what the instance says now
	ttl     time.Duration // that the agent has; 0: it has none
	asking  bool          // a registration is under way
	again   time.Time     // when to register, after a failure
	pending int           // reports that are under way
	next    time.Time     // when the next report is due
	sent    time.Time     // when the last report was sent
	good    time.Time     // when the last one was sent that the agent has taken
	fine    bool          // the agent has taken what was sent last
	due     time.Time     // when it is to look again at the latest
	woke    time.Time     // when it looked much later than that
}

// wakes notices that this process stood still, or got no processor: what took long meanwhile says
// nothing about the agent.
func (k *CheckKeeper) wakes(now time.Time) {
	if !k.due.IsZero() && now.Sub(k.due) > k.Instance.Get().CheckTTL/4 {
		k.woke = now
	}
}

// told is what came of a registration or a report.
type told struct {
	registered time.Duration // the TTL; 0: it was a report
	sent       time.Time
	took       time.Duration
	err        error
}

// Run keeps the instance until ctx ends. It may be called again when it has returned, and goes on
// with the instance that there is. [CheckKeeper.Deregister] takes the instance away.
func (k *CheckKeeper) Run(ctx context.Context) error {
	calls := NewOverlap[told]()
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	instance, session, ladder := k.Instance.Subscribe(), k.Session.Subscribe(), NewLadder()
	k.checkState = checkState{stale: true,
		patience: patience{patient: true, sessions: k.Session.Get().Count}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if k.Idle != nil {
			k.Idle(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-instance.Changed():
			instance.Take()
			k.stale = true
		case <-session.Changed():
			k.opened(session.Take().Count, time.Now())
		case come := <-calls.Results:
			k.wakes(time.Now())
			k.take(ctx, come(), ladder)
		case <-timer.C:
		}
		if k.Busy != nil {
			if err := k.Busy(ctx); err != nil {
				return err
			}
		}
		now := time.Now()
		k.wakes(now)
		wait := k.step(ctx, calls, now)
		k.due = now.Add(wait)
		timer.Reset(wait)
	}
}

// step sends what is due, and returns when to look again.
func (k *CheckKeeper) step(ctx context.Context, calls *Overlap[told],
	now time.Time) time.Duration {
	normal := k.Instance.Get().CheckTTL
	every := ReportEvery(cmp.Or(k.ttl, normal))
	if k.probes() {
		every = ReportEvery(normal)
	}
	if k.Stuck != nil && k.Stuck() { // who renews the session says so
		return every
	}
	silent := min(now.Sub(k.good), now.Sub(k.woke)) > k.ttl-2*every
	if k.known && (silent || k.pending > 2 && !k.patient) {
		k.tooSlow(now)
	}
	k.look(now)
	want := normal
	if k.patient {
		want = 3 * max(k.TTL, normal)
	}
	wait := every
	switch due := k.stale || !k.known || k.ttl != want; {
	case k.asking:
	case due && now.Before(k.again):
		wait = min(wait, k.again.Sub(now))
	case due:
		k.asking, k.asked, k.stale = true, true, false
		if k.ttl = cmp.Or(k.ttl, want); want < k.ttl {
			k.ttl, k.good, k.next = want, now, now
			every = ReportEvery(want)
			wait = every
		}
		calls.Go(ctx, func(ctx context.Context) told { return k.register(ctx, want) })
	case k.fine && k.Out.Get().ID == "":
		k.offer()
	}
	if c := k.Out.Get(); c.Slow != k.patient {
		c.Slow = k.patient
		k.Out.Set(c)
	}
	if k.patient && !k.calmAt.IsZero() {
		wait = min(wait, k.calmAt.Sub(now))
	}
	return min(wait, k.reports(ctx, calls, now, every))
}

// reports sends a report if one is due, and returns when the next one is.
func (k *CheckKeeper) reports(ctx context.Context, calls *Overlap[told], now time.Time,
	every time.Duration) time.Duration {
	limit, spacing, most := k.ttl/2, every, mostReports
	switch {
	case !k.patient:
	case k.ttl == k.Instance.Get().CheckTTL: // a longer one is asked for
		spacing, most = k.ttl/8, 4
	default:
		limit = k.ttl / 4
		spacing, most = limit/2, 2
	}
	next := k.next
	if again := k.sent.Add(spacing); k.pending > 0 && next.Before(again) {
		next = again
	}
	switch {
	case !k.known, k.pending >= most:
	case now.Before(next):
		return next.Sub(now)
	default:
		k.pending, k.sent, k.next = k.pending+1, now, now.Add(every)
		calls.Go(ctx, func(ctx context.Context) told { return k.report(ctx, limit) })
	}
	return every
}

// register registers the instance as it is to be shown. The agent keeps the check's state and its
// sessions, and counts it as a report. An agent whose queue is long does not forget who has left
// it, so the call may last long.
func (k *CheckKeeper) register(ctx context.Context, ttl time.Duration) told {
	i, sent := k.Instance.Get(), time.Now()
	i.CheckTTL = ttl
	call, cancel := context.WithTimeout(ctx, max(k.TTL, DefaultCallTimeout))
	defer cancel()
	err := k.Store.RegisterInstance(call, i)
	return told{ttl, sent, time.Since(sent), err}
}

// report says that the process is there.
func (k *CheckKeeper) report(ctx context.Context, limit time.Duration) told {
	sent := time.Now()
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	warns := k.Warns != nil && k.Warns()
	err := k.Store.ReportInstance(call, k.Instance.Get(), k.Says(), warns)
	return told{0, sent, time.Since(sent), err}
}

// take takes in an answer.
func (k *CheckKeeper) take(ctx context.Context, r told, ladder *Ladder) {
	now := time.Now()
	if k.fine = r.err == nil; k.fine && r.sent.After(k.good) { // they may overtake each other
		k.good = r.sent
	}
	late := k.Instance.Get().CheckTTL / 4
	if k.patient { // it becomes normal where there is room to spare
		late = max(late/3, 100*time.Millisecond)
	}
	switch {
	case r.sent.Before(k.woke):
	case r.err != nil && !errors.Is(r.err, ErrNotFound) || r.took > late:
		k.tooSlow(now)
	default:
		k.prompt(now)
	}
	if r.registered == 0 {
		k.reported(r, now)
		return
	}
	k.asking = false
	if r.err != nil {
		k.stale, k.again = true, now.Add(k.failed(r.err, max(ladder.NextBackOff(), r.took/2)))
		return
	}
	ladder.Reset()
	if !k.known && k.Registered != nil {
		k.Registered(ctx)
	}
	k.known, k.ttl = true, r.registered
}

// tooSlow makes the check patient.
func (k *CheckKeeper) tooSlow(now time.Time) {
	if !k.patient || k.calmFor == 0 {
		k.Log.Info("check-patient", "why", "Consul's agent is slow to take reports", "then",
			fmt.Sprintf("until it has been prompt for a while, who dies is noticed after up to %v "+
				"in place of %v", 2*k.TTL, k.Instance.Get().CheckTTL))
	}
	k.slow(now)
}

// failed takes in that a registration failed, and returns when to try again.
func (k *CheckKeeper) failed(err error, wait time.Duration) time.Duration {
	if !errors.Is(err, ErrUnreachable) {
		k.without(err.Error())
		wait = checkAgain
	}
	k.Store.Failed("check", err, wait)
	return wait
}

// reported takes in what came of a report. The next one comes no sooner than the agent has taken
// for this one, if that is longer than usual.
func (k *CheckKeeper) reported(r told, now time.Time) {
	k.pending--
	if after := now.Add(min(r.took, k.ttl/6)); r.took > ReportEvery(k.ttl) && after.After(k.next) {
		k.next = after
	}
	switch {
	case r.err == nil:
		k.Store.Succeeded("check")
		if c := k.Out.Get(); r.sent.After(c.Reported) {
			c.Reported = r.sent
			k.Out.Set(c)
		}
	case errors.Is(r.err, ErrNotFound): // the agent was started anew, and all register at once
		if k.known {
			k.known, k.again, k.ttl = false, now.Add(k.ttl/40), 0
			k.patience = patience{patient: true, sessions: k.sessions, ended: k.ended}
		}
		k.Store.Failed("check", r.err, ReportEvery(k.ttl))
	case errors.Is(r.err, ErrDenied):
		k.without(r.err.Error())
	default:
		k.Store.Failed("check", r.err, ReportEvery(k.ttl))
	}
}

// offer says that the next session can be bound to the check.
func (k *CheckKeeper) offer() {
	c := k.Out.Get()
	c.Known, c.ID = true, k.Instance.Get().CheckID()
	if c.Reported.IsZero() { // later the check keeps the state that it has
		c.Reported = time.Now()
	}
	k.Out.Set(c)
}

// without says that the next session will be bound to no check.
func (k *CheckKeeper) without(why string) {
	c := k.Out.Get()
	if !c.Known || c.ID != "" {
		sayNoCheck(k.Log, why, k.TTL, k.Instance.Get().CheckTTL)
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
	if !k.asked {
		return
	}
	i := k.Instance.Get()
	if err := k.Store.DeregisterInstance(ctx, i); err != nil && k.Out.Get().ID != "" {
		k.Log.Warn("instance-not-deregistered", "instance", i.ID, "err", err, "then",
			"Consul takes it away a minute after its check has turned critical")
	}
	k.Out.Set(facts.Check{})
}
