package store

import (
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
}

// checkAgain is how soon an agent that takes no registration is asked again: sessions that are
// opened later can be bound to the check.
const checkAgain = time.Minute

// mostReports is how many reports may be under way: the next one does not wait for them, for a way
// that takes its time delivers them all the same, and one that has lost a packet never will.
const mostReports = 7

// ReportEvery is the time between two reports to a check of that TTL: so a silence of five sixths
// of the TTL does not end the check.
func ReportEvery(ttl time.Duration) time.Duration { return ttl / 12 }

// report is what came of one.
type report struct {
	sent time.Time
	err  error
}

// Run keeps the instance until ctx ends. It may be called again when it has returned, and goes on
// with the instance that there is. [CheckKeeper.Deregister] takes the instance away.
func (k *CheckKeeper) Run(ctx context.Context) error {
	reports := NewOverlap[report]()
	defer reports.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	instance, ladder := k.Instance.Subscribe(), NewLadder()
	ttl := k.Instance.Get().CheckTTL
	known, stale := false, true // the agent has the check, and not what the instance says now
	var again time.Time         // when to register, after a failure
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
			if stale = true; known {
				timer.Reset(0)
			}
			continue
		case come := <-reports.Results:
			r := come()
			if errors.Is(r.err, ErrNotFound) { // the agent was started anew
				known = false
				timer.Reset(ttl / 40)
			}
			k.reported(r, known)
			continue
		case <-timer.C:
		}
		if k.Busy != nil {
			if err := k.Busy(ctx); err != nil {
				return err
			}
		}
		wait := ReportEvery(ttl)
		switch {
		case k.Stuck != nil && k.Stuck(): // who renews the session says so
		case (stale || !known) && !time.Now().Before(again):
			err := k.register(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				rest := k.failed(err, ladder.NextBackOff())
				if again = time.Now().Add(rest); !known {
					wait = rest
				}
				break
			}
			ladder.Reset()
			if stale, wait = false, 0; !known {
				known = true
				k.offer()
				if k.Registered != nil {
					k.Registered(ctx)
				}
			}
		case known && reports.Pending() < mostReports:
			reports.Go(ctx, k.report)
		}
		timer.Reset(wait)
	}
}

// register registers the instance as it is to be shown. The agent keeps the check's state and its
// sessions, and counts it as a report.
func (k *CheckKeeper) register(ctx context.Context) error {
	i := k.Instance.Get()
	call, cancel := context.WithTimeout(ctx, max(i.CheckTTL/3, time.Second))
	defer cancel()
	k.asked = true
	return k.Store.RegisterInstance(call, i)
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

// report says that the process is there.
func (k *CheckKeeper) report(ctx context.Context) report {
	i, sent := k.Instance.Get(), time.Now()
	call, cancel := context.WithTimeout(ctx, i.CheckTTL/2)
	defer cancel()
	warns := k.Warns != nil && k.Warns()
	return report{sent, k.Store.ReportInstance(call, i, k.Says(), warns)}
}

// reported takes in what came of a report.
func (k *CheckKeeper) reported(r report, known bool) {
	c := k.Out.Get()
	switch {
	case r.err == nil:
		k.Store.Succeeded("check")
		if r.sent.After(c.Reported) { // reports may overtake each other
			c.Reported = r.sent
			k.Out.Set(c)
		}
		if known && c.ID == "" {
			k.offer()
		}
	case errors.Is(r.err, ErrDenied):
		k.without(r.err.Error())
	default:
		k.Store.Failed("check", r.err, ReportEvery(k.Instance.Get().CheckTTL))
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
