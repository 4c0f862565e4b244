package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// How long a call is waited for that a member makes on its way out. Consul may take 2 s for each
// answer (T/5 by default), and a call waits for two at the most, one after the other. A single
// request ends by itself after [store.DefaultCallTimeout]. Where nothing has come back, Consul is
// likely to be away: the calls after it get silentTimeout, so that the stop ends.
const (
	// LastCallTimeout bounds a call of two requests.
	LastCallTimeout = 4500 * time.Millisecond
	silentTimeout   = time.Second
	// silenceCounts is longer than what is left of a stop. A term may end long before its member.
	silenceCounts = 30 * time.Second
)

// silence is when a last call had no answer; nil after one that had.
type silence struct{ since atomic.Pointer[time.Time] }

func (s *silence) lasts(now time.Time) bool {
	since := s.since.Load()
	return since != nil && now.Sub(*since) < silenceCounts
}

func (s *silence) heard(nothing bool) {
	if !nothing {
		s.since.Store(nil)
		return
	}
	now := time.Now()
	s.since.Store(&now)
}

// LastCall makes a call to Consul by which an actor hands something over, and returns its error.
// The call lasts for [LastCallTimeout] at the most, for 1 s where the last calls before it had no
// answer. If ctx has ended already, that does not end the call. Safe for concurrent use.
func (b *Base) LastCall(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	timeout := LastCallTimeout
	if b.silence.lasts(time.Now()) {
		timeout = silentTimeout
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := do(call)
	if ctx.Err() == nil { // else it was cut short, which says nothing of Consul
		b.silence.heard(err != nil && (call.Err() != nil || errors.Is(err, store.ErrNoAnswer)))
	}
	return err
}
