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

// CheckKeeper keeps this member registered at Consul's agent, as an instance of the service with a
// check that it reports to: see [store.CheckKeeper].
type CheckKeeper struct {
	*actor.Base
	instance messages.Reader[store.Instance]
	told     Told
	keeper   *store.CheckKeeper
}

// NewCheckKeeper wires the actor.
func NewCheckKeeper(b *actor.Base, out *messages.State[facts.Check],
	instance messages.Reader[store.Instance], told Told) *CheckKeeper {
	a := &CheckKeeper{Base: b, instance: instance, told: told}
	a.keeper = &store.CheckKeeper{Store: b.Store, Instance: instance, TTL: b.TTL, Log: b.Log,
		Out: out, Says: a.says, Warns: a.warns, Idle: b.Idle, Busy: b.Busy, Registered: supervisor.Ready,
		Stuck: func() bool { // the session-renewer says so
			who, _ := b.Stuck(time.Now())
			return who != ""
		}}
	return a
}

// Run is the actor: see [supervisor.Child].
func (a *CheckKeeper) Run(ctx context.Context) error {
	defer a.deregister(ctx)
	return a.keeper.Run(ctx)
}

// says is what is shown beside the check.
func (a *CheckKeeper) says() string {
	f := a.told.facts(a.Base)
	f.drained = slices.Contains(a.instance.Get().Tags, TagDraining)
	f.behind = a.warns()
	return f.output(time.Now())
}

// mostBehind is how old the states may be that Consul has of the work, before the check warns.
const mostBehind = 3 * time.Second

// warns tells whether Consul has old states of the work: readers do not trust them then.
func (a *CheckKeeper) warns() bool {
	behind := a.told.Behind.Get()
	return !behind.IsZero() && time.Since(behind) > mostBehind
}

// deregister is the last step of a clean stop.
func (a *CheckKeeper) deregister(ctx context.Context) {
	if ctx.Err() == nil {
		return // a crash: the next incarnation goes on
	}
	_ = a.LastCall(ctx, func(ctx context.Context) error {
		a.keeper.Deregister(ctx)
		return nil
	})
}
