package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/messages"
)

// errLeaseOver ends what was bound to a lease.
var errLeaseOver = errors.New("the lease is over")

// bailiff ends the contexts of all work, and of the host's duty, when the lease is about to end,
// whatever becomes of the actors that stop them in order: one of these may hang. It asks nobody,
// waits for nothing and logs nothing.
type bailiff struct {
	session messages.Reader[messages.Session]
	margin  time.Duration
	more    *messages.State[struct{}] // something was bound while nothing was

	mu    sync.Mutex
	bound map[*bond]struct{}
}

type bond struct {
	session string
	cancel  context.CancelCauseFunc
}

func newBailiff(session messages.Reader[messages.Session], margin time.Duration) *bailiff {
	return &bailiff{session: session, margin: margin, more: messages.NewState(struct{}{}),
		bound: map[*bond]struct{}{}}
}

// bind returns a context that ends with ctx, and with the lease of that session: at once when it is
// over already. The func frees it.
func (b *bailiff) bind(ctx context.Context, session string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &bond{session, cancel}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.holds(session) {
		cancel(errLeaseOver)
		return ctx, func() {}
	}
	b.bound[x] = struct{}{}
	if len(b.bound) == 1 {
		b.more.Set(struct{}{})
	}
	return ctx, func() {
		b.mu.Lock()
		delete(b.bound, x)
		b.mu.Unlock()
		cancel(nil)
	}
}

// await waits until the lease of that session holds.
func (b *bailiff) await(ctx context.Context, session string) error {
	_, err := b.session.Wait(ctx, func(s messages.Session) bool {
		return s.ID == session && s.Holds(time.Now(), b.margin)
	})
	return err
}

func (b *bailiff) holds(session string) bool {
	s := b.session.Get()
	return s.ID == session && s.Holds(time.Now(), b.margin) || mutations.Broken("no-lease")
}

func (b *bailiff) run(ctx context.Context) error {
	session, more := b.session.Subscribe(), b.more.Subscribe()
	var timer alarm
	defer timer.stop()
	for {
		next := b.look()
		select {
		case <-ctx.Done():
			return nil
		case <-session.Changed():
			session.Take()
		case <-more.Changed():
			more.Take()
		case <-timer.at(next):
		}
	}
}

// look ends what has no lease, and returns when to look again.
func (b *bailiff) look() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	for x := range b.bound {
		if !b.holds(x.session) && !mutations.Broken("no-bailiff") {
			x.cancel(errLeaseOver)
			delete(b.bound, x)
		}
	}
	if len(b.bound) == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(untilLook(b.session.Get().Lease.Left(now) - b.margin))
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

// leaseEnded tells whether it was the lease that ended a bound context.
func leaseEnded(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLeaseOver) }
