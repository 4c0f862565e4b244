package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/messages"
)

// LeaseEnforcer ends the contexts of all work, and of the host's lead function, shortly before the
// lease ends. It does so even if the actors that stop them in order hang. It calls nobody, waits
// for nothing and logs nothing.
type LeaseEnforcer struct {
	session messages.Reader[facts.Session]
	base    *actor.Base
	more    *messages.State[struct{}] // something was bound while nothing was

	mu    sync.Mutex
	bound map[*leaseBinding]struct{}
}

// leaseBinding is a context that ends with the lease of a session.
type leaseBinding struct {
	session string
	cancel  context.CancelCauseFunc
}

func NewLeaseEnforcer(b *actor.Base, session messages.Reader[facts.Session]) *LeaseEnforcer {
	return &LeaseEnforcer{session: session, base: b, more: messages.NewState(struct{}{}),
		bound: map[*leaseBinding]struct{}{}}
}

// bind returns a context that ends with ctx, and with the lease of that session: at once when it is
// over already. The func frees it.
func (e *LeaseEnforcer) bind(ctx context.Context, session string) (context.Context,
	context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &leaseBinding{session, cancel}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.holds(session) {
		cancel(e.over(session))
		return ctx, func() {}
	}
	e.bound[x] = struct{}{}
	if len(e.bound) == 1 {
		e.more.Set(struct{}{})
	}
	return ctx, func() {
		e.mu.Lock()
		delete(e.bound, x)
		e.mu.Unlock()
		cancel(nil)
	}
}

// await waits until the lease of that session holds.
func (e *LeaseEnforcer) await(ctx context.Context, session string) error {
	_, err := e.session.Wait(ctx, func(s facts.Session) bool {
		return s.ID == session && s.Holds(time.Now(), e.base.LeaseMargin)
	})
	return err
}

func (e *LeaseEnforcer) holds(session string) bool {
	s := e.session.Get()
	return s.ID == session && s.Holds(time.Now(), e.base.LeaseMargin)
}

// Run is the actor: see [supervisor.Child].
func (e *LeaseEnforcer) Run(ctx context.Context) error {
	session, more := e.session.Subscribe(), e.more.Subscribe()
	var timer actor.Timer
	defer timer.Stop()
	defer e.base.Store.Tick(false)
	for {
		e.base.Store.Tick(true)
		next := e.look()
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			session.Take()
		case <-more.Changed():
			more.Take()
		case <-timer.At(next):
		}
	}
}

// look ends what has no lease, and returns when to look again.
func (e *LeaseEnforcer) look() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	for x := range e.bound {
		if !e.holds(x.session) {
			x.cancel(e.over(x.session))
			delete(e.bound, x)
		}
	}
	now := time.Now()
	if len(e.bound) == 0 {
		return now.Add(time.Second)
	}
	return now.Add(untilLook(e.session.Get().Lease.Left(now) - e.base.LeaseMargin))
}

// untilLook is how soon to look at a lease again that has so much left beyond the margin: once a
// second, by both clocks, for a timer stands still while the host is suspended; and never later
// than the margin begins. What goes on after that is looked at less often.
func untilLook(left time.Duration) time.Duration {
	if left <= 0 {
		return 50 * time.Millisecond
	}
	return min(left, time.Second)
}

// over says why what was bound to a session has no lease.
func (e *LeaseEnforcer) over(session string) actor.StopCause {
	if e.session.Get().ID != session {
		return actor.StopSessionLost
	}
	return actor.StopLeaseOver
}

// leaseEnded tells whether it was the lease, or the session, that ended a bound context.
func leaseEnded(ctx context.Context) bool {
	why := context.Cause(ctx)
	return errors.Is(why, actor.StopLeaseOver) || errors.Is(why, actor.StopSessionLost)
}
