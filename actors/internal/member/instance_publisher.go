package member

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// InstancePublisher says what this member's instance at Consul's agent is to show. The check-keeper
// registers it. Nothing rests on it.
type InstancePublisher struct {
	*actor.Base
	out  *messages.State[store.Instance]
	bare store.Instance // without tags
	told Told

	drained bool
	look    time.Time // when to look for an order to drain
	said    []string
	saidAt  time.Time
}

// Told is what other actors say that an instance shows.
type Told struct {
	Session    messages.Reader[facts.Session]
	Membership messages.Reader[facts.Membership]
	Leadership messages.Reader[facts.Leadership]
	Plan       messages.Reader[facts.Distribution]
	Holdings   messages.Reader[facts.Holdings]
	Tags       messages.Reader[[]string] // the host's own
	Records    *WorkRecords
	// Behind is since when what Consul has of the work's states is not what is so; zero: it is.
	Behind messages.Reader[time.Time]
}

// facts are what they say now.
func (t Told) facts(b *actor.Base) instanceFacts {
	f := instanceFacts{leadership: t.Leadership.Get(), membership: t.Membership.Get(),
		running: t.Records.running(t.Holdings.Get()), session: t.Session.Get(),
		duty: b.Lead != nil, tags: t.Tags.Get()}
	if p := t.Plan.Get(); p.Term == f.leadership.Term {
		f.brake = p.Brake
	}
	return f
}

// NewInstancePublisher wires the actor.
func NewInstancePublisher(b *actor.Base, out *messages.State[store.Instance],
	told Told) *InstancePublisher {
	return &InstancePublisher{Base: b, out: out, bare: out.Get(), told: told}
}

const (
	// changeEvery: each change of the tags is a write of Consul's, and wakes all who watch the
	// service.
	changeEvery = 5 * time.Second
	// drainEvery is how often Consul is asked whether the member is drained.
	drainEvery = time.Minute
)

// Run is the actor: see [supervisor.Child].
func (a *InstancePublisher) Run(ctx context.Context) error {
	leadership, membership := a.told.Leadership.Subscribe(), a.told.Membership.Subscribe()
	tags := a.told.Tags.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	var next time.Time
	for {
		a.Idle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-leadership.Changed():
			leadership.Take()
		case <-membership.Changed():
			membership.Take()
		case <-tags.Changed():
			tags.Take()
		case <-timer.At(next):
		}
		if err := a.Busy(ctx); err != nil {
			return err
		}
		next = a.step(ctx, time.Now())
		supervisor.Ready(ctx)
	}
}

// step says what the instance is to show, and returns when to look again.
func (a *InstancePublisher) step(ctx context.Context, now time.Time) (next time.Time) {
	if a.look.IsZero() {
		a.look = now.Add(changeEvery)
	}
	if !now.Before(a.look) {
		a.look = now.Add(drainEvery)
		a.findDrain(ctx)
	}
	next = a.look
	f := a.told.facts(a.Base)
	f.drained = a.drained
	want := f.shown()
	if at := f.leadership.ClearAt; f.leadership.Role == facts.Leading && at.After(now) {
		next = actor.Earliest(next, at)
	}
	if slices.Equal(want, a.said) {
		return next
	}
	if due := a.saidAt.Add(changeEvery); due.After(now) {
		return actor.Earliest(next, due)
	}
	a.said, a.saidAt = want, now
	shows := a.bare
	shows.Tags = want
	a.out.Set(shows)
	return next
}

// findDrain asks Consul whether this member is drained. What cannot be told stays as it is.
func (a *InstancePublisher) findDrain(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, actor.LastCallTimeout)
	defer cancel()
	if _, found, _, err := a.Store.Get(call, a.Keys.Drain(a.ID), store.Stale); err == nil {
		a.drained = found
	}
}
