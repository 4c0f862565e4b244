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
	checkState
}

// checkState is what a CheckKeeper knows of its check.
type checkState struct {
	agentPace
	stale   bool      // the agent does not have what the instance says now
	asking  bool      // a registration is under way
	again   time.Time // when to register, after a failure
	pending int       // reports that are under way
}

// checkAgain is how soon an agent that takes no registration is asked again: sessions that are
// opened later can be bound to the check.
const checkAgain = time.Minute

// ReportEvery is the time from a report to the next, for a check of that TTL. While there is no
// answer a third of that is. So a silence of five sixths of the TTL does not end the check.
func ReportEvery(ttl time.Duration) time.Duration { return ttl / 8 }

// toldAgent is what came of a registration or a report.
type toldAgent struct {
	registered time.Duration // the TTL; 0: it was a report
	sent       time.Time
	err        error
}

// Run keeps the instance until ctx ends. It may be called again when it has returned, and goes on
// with the instance that there is. [CheckKeeper.Deregister] takes the instance away.
func (k *CheckKeeper) Run(ctx context.Context) error {
	calls := NewOverlap[toldAgent]()
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	instance, ladder := k.Instance.Subscribe(), NewLadder()
	normal := k.Instance.Get().CheckTTL
	k.checkState = checkState{stale: true,
		agentPace: agentPace{normal: normal, long: 3 * max(k.TTL, normal)}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wake := time.Now(); ; {
		if k.Idle != nil {
			k.Idle(ctx)
		}
		var come func() toldAgent
		select {
		case <-ctx.Done():
			return nil
		case <-instance.Changed():
			instance.Take()
			k.stale = true
		case come = <-calls.Results:
		case <-timer.C:
		}
		if k.Busy != nil {
			if err := k.Busy(ctx); err != nil {
				return err
			}
		}
		now := time.Now()
		if now.Sub(wake) > normal/8 { // this process did not run, which is no fault of the agent's
			k.woke = now
		}
		if come != nil {
			k.take(ctx, come(), ladder)
		}
		wait := k.step(ctx, calls, now)
		wake = now.Add(wait)
		timer.Reset(wait)
	}
}

// step sends what is due, and returns when to look again.
func (k *CheckKeeper) step(ctx context.Context, calls *Overlap[toldAgent],
	now time.Time) time.Duration {
	if k.Stuck != nil && k.Stuck() { // who renews the session says so
		return ReportEvery(k.normal)
	}
	wait := k.normal
	if want := k.want(now); !k.asking && (k.stale || k.has != want) {
		if wait = k.again.Sub(now); wait <= 0 {
			k.asking, k.asked, k.stale = true, true, false
			calls.Go(ctx, func(ctx context.Context) toldAgent { return k.register(ctx, want) })
			wait = k.normal
		}
	}
	if k.has == 0 || k.pending >= k.most() {
		return wait
	}
	if next := k.next(now).Sub(now); next > 0 {
		return min(wait, next)
	}
	k.sent, k.pending = now, k.pending+1
	limit := k.has / 2
	calls.Go(ctx, func(ctx context.Context) toldAgent { return k.report(ctx, limit) })
	return min(wait, k.next(now).Sub(now))
}

// register registers the instance as it is to be shown. The agent keeps the check's state and its
// sessions, and counts it as a report.
func (k *CheckKeeper) register(ctx context.Context, ttl time.Duration) toldAgent {
	i, sent := k.Instance.Get(), time.Now()
	i.CheckTTL = ttl
	call, cancel := context.WithTimeout(ctx, 2*k.TTL)
	defer cancel()
	return toldAgent{ttl, sent, k.Store.RegisterInstance(call, i)}
}

// report says that the process is there.
func (k *CheckKeeper) report(ctx context.Context, limit time.Duration) toldAgent {
	sent := time.Now()
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	warns := k.Warns != nil && k.Warns()
	return toldAgent{0, sent, k.Store.ReportInstance(call, k.Instance.Get(), k.Says(), warns)}
}

// take takes in an answer.
func (k *CheckKeeper) take(ctx context.Context, a toldAgent, ladder *Ladder) {
	now := time.Now()
	if a.err != nil {
		k.prompt = time.Time{}
	} else if k.answered(a.sent, now) {
		k.Log.Warn("slow-agent", "why", "Consul's agent took "+
			k.took.Round(time.Millisecond).String()+" to answer", "then", fmt.Sprintf("until it is "+
			"prompt again who dies is noticed after up to %v in place of %v", 2*k.TTL, k.normal))
	}
	if a.registered == 0 {
		k.pending--
		k.reported(a)
		return
	}
	k.asking = false
	if a.err != nil {
		k.stale, k.again = true, now.Add(k.failed(a.err, ladder.NextBackOff()))
		return
	}
	ladder.Reset()
	first := k.has == 0
	if k.registered(a.registered, now); first {
		k.offer()
		if k.Registered != nil {
			k.Registered(ctx)
		}
	}
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

// reported takes in what came of a report.
func (k *CheckKeeper) reported(a toldAgent) {
	c := k.Out.Get()
	switch {
	case a.err == nil:
		k.Store.Succeeded("check")
		if a.sent.After(c.Reported) {
			c.Reported = a.sent
			k.Out.Set(c)
		}
		if k.has != 0 && c.ID == "" {
			k.offer()
		}
	case errors.Is(a.err, ErrNotFound): // the agent was started anew
		if k.has != 0 {
			k.again = time.Now().Add(k.has / 40)
			k.agentPace = agentPace{normal: k.normal, long: k.long}
		}
	case errors.Is(a.err, ErrDenied):
		k.without(a.err.Error())
	default:
		k.Store.Failed("check", a.err, ReportEvery(k.has))
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
