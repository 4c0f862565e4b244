package supervisor

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// StepType says what happened.
type StepType string

const (
	StepStarted    StepType = "started"
	StepReady      StepType = "ready"
	StepEnded      StepType = "ended"      // by itself: Kind, Err
	StepRestarting StepType = "restarting" // will be started again: After, and why: Kind, Err
	// the supervisor at Path gave up: Err is its *EscalationError
	StepEscalated StepType = "escalated"
	StepStopping  StepType = "stopping" // was asked to stop: Err is why
	StepStopped   StepType = "stopped"  // ended after it was asked: Kind, Err
	// did not stop in time and was abandoned: Err is a *StuckError
	StepStuck StepType = "stuck"
	// had been abandoned, and has ended after all: Kind, Err
	StepEndedLate StepType = "ended-late"
)

// Step is one step in the life of a child or of the root.
type Step struct {
	At          time.Time
	Type        StepType
	Path        string
	Incarnation int
	Kind        Kind
	Err         error
	After       time.Duration
	// Dropped counts the steps that this subscriber lost just before this one.
	Dropped uint64
}

// hub hands steps to subscribers. Without any, a step costs one load. It holds the tree's counts.
type hub struct {
	mu   sync.Mutex
	subs atomic.Pointer[[]*Subscription]

	tally tally
}

// silent means that nobody listens.
func (h *hub) silent() bool {
	subs := h.subs.Load()
	return subs == nil || len(*subs) == 0
}

func (h *hub) publish(e Step) {
	if h.silent() {
		return
	}
	subs := h.subs.Load()
	e.At = time.Now()
	for _, s := range *subs {
		s.push(e)
	}
}

// change replaces the list: publishers never wait for it.
func (h *hub) change(f func([]*Subscription) []*Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var subs []*Subscription
	if old := h.subs.Load(); old != nil {
		subs = slices.Clone(*old)
	}
	subs = f(subs)
	h.subs.Store(&subs)
}

// Subscribe opens a stream of the steps from now on, over all Runs, until it is closed. It keeps
// the newest size steps (at least 1) that have not been read. Older ones are dropped, and counted
// in the next one read. So a slow reader never delays the supervisor. Steps of one child come in
// order. Those of different supervisors in the tree may overtake one another by a moment.
func (s *Supervisor) Subscribe(size int) *Subscription {
	sub := &Subscription{hub: &s.hub, size: max(size, 1), wake: make(chan struct{}, 1)}
	s.hub.change(func(subs []*Subscription) []*Subscription { return append(subs, sub) })
	return sub
}

// Subscription is a bounded stream of steps, for one reader.
type Subscription struct {
	hub  *hub
	size int
	wake chan struct{}

	mu      sync.Mutex
	unread  []Step // oldest first
	dropped uint64 // before these
	closed  bool
}

func (s *Subscription) push(e Step) {
	s.mu.Lock()
	if !s.closed {
		if len(s.unread) == s.size {
			s.unread = s.unread[1:]
			s.dropped++
		}
		s.unread = append(s.unread, e)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Pending takes, without waiting, what has not been read.
func (s *Subscription) Pending() []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unread) == 0 {
		return nil
	}
	events := s.unread
	events[0].Dropped = s.dropped
	s.unread, s.dropped = nil, 0
	return events
}

// All gives the steps as they come, until ctx ends or the subscription is closed. What is pending
// then is still given. Steps that the loop's body leaves are lost with the break of the loop.
func (s *Subscription) All(ctx context.Context) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for {
			s.mu.Lock()
			over := s.closed || ctx.Err() != nil
			s.mu.Unlock()
			for _, e := range s.Pending() {
				if !yield(e) {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
		}
	}
}

// Close ends the stream. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.change(func(subs []*Subscription) []*Subscription {
		return slices.DeleteFunc(subs, func(o *Subscription) bool { return o == s })
	})
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
