package actors

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/mutations"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// base is embedded in every actor of one member: the settings and the access to Consul. The
// settings do not change while the actors run.
type base struct {
	Config
	store *protocol.Store
	keys  protocol.Keys
	log   *slog.Logger
	acks  *ackCounter
	polls *store.Polls
	// progress tells the session-renewer which actor hangs.
	progress      *progress
	leaseEnforcer *leaseEnforcer
	// leads is how many of the host's lead functions run: one, but for those that were abandoned.
	leads atomic.Int32
	// routes idles until it is asked for the first time.
	routes *routing.Router
	fault  store.Fault
}

// took is called by each actor when it has taken a message and done nothing with
// it yet; an error is the actor's end. Before it waits for the next one it calls rests.
func (h *base) took(ctx context.Context) error {
	h.progress.begins(ctx)
	return h.fault.Inject(ctx)
}

// rests is called by each actor before it waits for a message.
func (h *base) rests(ctx context.Context) { h.progress.rests(ctx) }

// ack is the value that this member writes to its acks key. While it is not clear, inherited is the
// longest TTL that a predecessor may still count on: should this one die before it is clear, that
// is what must be waited for.
func (h *base) ack(session string, clear bool, inherited time.Duration) protocol.Ack {
	ttl := h.TTL
	if !clear && !mutations.Broken("own-ttl-only") {
		ttl = max(ttl, inherited)
	}
	by := *h.Process
	by.Lock = h.Lock()
	return protocol.Ack{Counter: h.acks.next(), Session: session, By: by, Clear: clear, TTL: ttl,
		Terms: true}
}

// holds tells whether s may be counted on now, with the margin that stopping takes.
func (h *base) holds(s messages.Session) bool { return s.Holds(time.Now(), h.LeaseMargin) }

// passing tells whether err is no reason to give a whole member up, so that the actor asks again on
// its ladder. A request that is called bad is among them: what actors send is well formed, for
// values and ids are looked at where they are read, so that is the word of a proxy. It is never
// taken for an absent Consul: see [protocol.Store.Failed].
func passing(err error) bool {
	return errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrDenied) ||
		errors.Is(err, store.ErrInvalid)
}

// cleanup is the context for what an actor does after its own has ended: it lasts for d.
func cleanup(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// alarm is a timer for a select loop: set it anew in each round.
type alarm struct{ t *time.Timer }

// at makes the alarm go off at when; never, for the zero time.
func (a *alarm) at(when time.Time) <-chan time.Time {
	if a.t != nil {
		a.t.Stop()
	}
	if when.IsZero() {
		return nil
	}
	a.t = time.NewTimer(time.Until(when))
	return a.t.C
}

func (a *alarm) stop() {
	if a.t != nil {
		a.t.Stop()
	}
}

// earliest returns the earlier of two times; a zero time is no time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// unless returns err, or nil if it is of the kind.
func unless(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}
