package actor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// Base is embedded in every actor of one member: its settings, the access to Consul, and what tells
// whether an actor hangs.
type Base struct {
	Settings
	Store *protocol.Store
	Keys  protocol.Keys
	Log   *slog.Logger
	Polls *store.Polls
	// Copied: another machine says that it is this one. So a process may live that is not here.
	Copied *messages.State[bool]
	// Fault is called where an actor has just taken a message: for tests.
	Fault    store.Fault
	progress *progress
}

// NewBase makes the base of one member's actors.
func NewBase(set Settings, s *protocol.Store, log *slog.Logger) *Base {
	return &Base{Settings: set, Store: s, Keys: s.Keys(), Log: log, Polls: &store.Polls{},
		Copied: messages.NewState(set.Copied), progress: newProgress()}
}

// Liveness is what is known of a process that may run on this machine.
func (b *Base) Liveness(p protocol.Process) protocol.Liveness {
	l := b.Settings.Liveness(p)
	if l == protocol.Dead && b.Copied.Get() {
		return protocol.Unknown
	}
	return l
}

// Busy is called by each actor when it has taken a message and done nothing with
// it yet; an error is the actor's end. Before it waits for the next one it calls Idle.
func (b *Base) Busy(ctx context.Context) error {
	b.progress.busy(ctx)
	b.Store.Stood() // before anything is laid to Consul
	return b.Fault.Inject(ctx)
}

// Ends is called in place of Busy by an actor that goes on with something after its context has
// ended: that may hang as well.
func (b *Base) Ends(ctx context.Context) { b.progress.busy(ctx) }

// Idle is called by each actor before it waits for a message.
func (b *Base) Idle(ctx context.Context) { b.progress.idle(ctx) }

// Stuck finds the actor that has hung for the longest time; the empty string if none does.
func (b *Base) Stuck(now time.Time) (actor string, since time.Time) {
	return b.progress.stuck(now, b.Store.Woke())
}

// Holds tells whether s may be counted on now, with the margin that stopping takes.
func (b *Base) Holds(s facts.Session) bool { return s.Holds(time.Now(), b.LeaseMargin) }

// Transient tells whether err is no reason to give a whole member up, so that the actor asks again
// on its ladder. A request that is called bad is among them: what actors send is well formed, for
// values and ids are looked at where they are read, so that is the word of a proxy. It is never
// taken for an absent Consul: see [protocol.Store.Failed].
func Transient(err error) bool {
	return errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrDenied) ||
		errors.Is(err, store.ErrInvalid)
}

// Retry reports that what failed, and returns when the ladder has it tried again.
func (b *Base) Retry(what string, err error, ladder *store.Ladder) time.Time {
	wait := ladder.NextBackOff()
	b.Store.Failed(what, err, wait)
	return time.Now().Add(wait)
}

// Cleanup is the context for what an actor does after its own has ended: it lasts for d.
func Cleanup(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// ErrNotLeading is the leader-tracker's answer to an order that only a leader can carry out.
var ErrNotLeading = errors.New("this member does not lead")
