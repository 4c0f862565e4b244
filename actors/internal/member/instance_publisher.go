package member

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// InstancePublisher keeps the labels of this member's instance true: it registers the instance anew
// at Consul's agent when they have changed. Its failures cost nothing but their truth: the check is
// the check-keeper's.
type InstancePublisher struct {
	*actor.Base
	instance *Instance
	told     Told

	pace    pace
	look    time.Time // when to look whether the agent shows what it was told, and for a drain
	looked  time.Time // when that was last done
	again   time.Time // when to try again what has failed
	drained bool
	listed  time.Time // when the items were last taken into the labels
	items   []string
	ladder  *store.Ladder
}

// Told is what other actors say that an instance shows.
type Told struct {
	Session     messages.Reader[messages.Session]
	Membership  messages.Reader[messages.Membership]
	Leadership  messages.Reader[messages.Leadership]
	Plan        messages.Reader[messages.Plan]
	Assignments messages.Reader[messages.Assignments]
	Holdings    messages.Reader[messages.Holdings]
	Tags        messages.Reader[[]string] // the host's own
}

// facts are what they say now.
func (t Told) facts(b *actor.Base) facts {
	f := facts{leadership: t.Leadership.Get(), membership: t.Membership.Get(),
		holdings: t.Holdings.Get(), session: t.Session.Get(), items: b.PublishItems,
		duty: b.Lead != nil, tags: t.Tags.Get()}
	if p := t.Plan.Get(); p.Term == f.leadership.Term {
		f.brake = p.Brake
	}
	return f
}

// NewInstancePublisher wires the actor.
func NewInstancePublisher(b *actor.Base, instance *Instance, told Told) *InstancePublisher {
	return &InstancePublisher{Base: b, instance: instance, told: told,
		ladder: store.NewLadder(), pace: pace{every: registerEvery, burst: mostAtOnce}}
}

// Each change of the labels is a write of Consul's, and wakes all who watch the service. A few come
// at once; a leadership that flaps is shown as it is each 15 s.
const (
	registerEvery = 15 * time.Second
	mostAtOnce    = 4
	itemsEvery    = 30 * time.Second
)

// lookEvery is how often the publisher asks the agent what it shows, for a late copy of an old
// registration may have come, and Consul whether the member is drained. After a change of its
// assignments it asks sooner: an order to drain shows by that.
const (
	lookEvery = time.Minute
	lookSoon  = 5 * time.Second
)

// Run is the actor: see [supervisor.Child].
func (a *InstancePublisher) Run(ctx context.Context) error {
	leadership, membership := a.told.Leadership.Subscribe(), a.told.Membership.Subscribe()
	assignments, holdings := a.told.Assignments.Subscribe(), a.told.Holdings.Subscribe()
	shown, tags := a.instance.shown.Subscribe(), a.told.Tags.Subscribe()
	items := holdings.Changed
	if !a.PublishItems {
		items = func() <-chan struct{} { return nil }
	}
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
		case <-assignments.Changed():
			assignments.Take()
			a.look = actor.Earliest(a.look, actor.Latest(time.Now(), a.looked.Add(lookSoon)))
		case <-items():
			holdings.Take()
		case <-shown.Changed():
			shown.Take()
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

// step brings the instance into line with what it is to show, and returns when to do so again.
func (a *InstancePublisher) step(ctx context.Context, now time.Time) (next time.Time) {
	if a.instance.shown.Get().Known {
		if a.look.IsZero() {
			a.look = now.Add(lookSoon)
		}
		if !now.Before(a.look) {
			a.lookAround(ctx)
			a.looked, a.look = now, now.Add(lookEvery)
			if a.instance.shown.Get().Other { // it may be one of several agents at one address
				a.look = now.Add(lookSoon)
			}
		}
		next = a.look
	}
	want, changes := a.labels(now)
	next = actor.Earliest(next, changes)
	if !a.instance.wanted.Get().same(want) {
		a.instance.wanted.Set(want)
	}
	shown := a.instance.shown.Get()
	switch {
	case !shown.Known:
		return next // the check-keeper registers it, where the agent takes a check
	case shown.Labels.same(want) && !shown.Other:
		a.ladder.Reset()
		a.again = time.Time{}
		return next
	}
	if who, _ := a.Stuck(now); who != "" {
		return next // a registration gives the check its time anew
	}
	if at := actor.Latest(a.again, a.pace.free(now)); at.After(now) {
		return actor.Earliest(next, at)
	}
	if ctx.Err() != nil {
		return next // it is about to be taken away
	}
	a.pace.take(now)
	// Not cut short by the end of this actor: the check-keeper takes the instance away after it.
	if err := a.LastTry(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return a.instance.register(ctx, a.Store.Store)
	}); err != nil {
		wait := a.ladder.NextBackOff()
		a.Log.Debug("instance-not-published", "err", err, "retry_in", wait.String())
		a.again = now.Add(wait)
		return actor.Earliest(next, actor.Latest(a.again, a.pace.free(now)))
	}
	return next // what is shown has changed: it looks again
}

// labels are what to show now, and when that changes by time alone.
func (a *InstancePublisher) labels(now time.Time) (want Labels, next time.Time) {
	f := a.told.facts(a.Base)
	f.drained = a.drained
	want = f.labels()
	if at := f.leadership.ClearAt; f.leadership.Role == messages.Leading && at.After(now) {
		next = at
	}
	if !f.items || slices.Equal(want.Items, a.items) {
		return want, next
	}
	if due := a.listed.Add(itemsEvery); due.After(now) {
		next = actor.Earliest(next, due)
	} else {
		a.items, a.listed = want.Items, now
	}
	want.Items = a.items
	return want, next
}

// lookAround asks the agent what it shows, and Consul whether this member is drained. What cannot
// be told stays as it is.
func (a *InstancePublisher) lookAround(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, actor.LastCallTimeout)
	defer cancel()
	found := a.drained
	if err := a.Store.Contain("the order to drain", func() (err error) {
		_, found, _, err = a.Store.Get(call, a.Keys.Drain(a.ID), store.Stale)
		return err
	}); err == nil {
		a.drained = found
	}
	shown := a.instance.shown.Get()
	// An agent that knows no such instance says so to the check-keeper's next report, too.
	if same, err := a.Store.Shows(call, a.instance.with(shown.Labels)); err == nil && !same {
		shown.Other = true
		a.instance.shown.Set(shown)
	}
}

// pace lets some actions through at once, and from then on one in each interval.
type pace struct {
	every time.Duration
	burst int
	next  time.Time // when the next one was due, had they come one in each interval
}

// free is when the next one may be done.
func (p pace) free(now time.Time) time.Time {
	return actor.Latest(now, p.next.Add(-time.Duration(p.burst-1)*p.every))
}

// take is one that is done.
func (p *pace) take(now time.Time) { p.next = actor.Latest(p.next, now).Add(p.every) }
