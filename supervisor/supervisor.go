package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// Option changes a Supervisor at its making.
type Option func(*Supervisor)

// WithLogger sets where failures, escalations and stuck children are logged. Default slog.Default()
// at the time of the call to New. What goes well is not logged: see [Supervisor.Subscribe]. The
// supervisor never waits for the logger's handler: records that it cannot take are dropped and
// counted. Run waits up to a second at its end for what is still to be written.
func WithLogger(log *slog.Logger) Option {
	return func(s *Supervisor) {
		if log != nil {
			s.log = log
		}
	}
}

// WithStopTimeout bounds the whole stop: when it has lasted for d, all children that are left are
// asked to stop at once and have 100 ms. Default (0): the deadlines of the children alone.
func WithStopTimeout(d time.Duration) Option {
	return func(s *Supervisor) { s.stopTimeout = max(d, 0) }
}

// Supervisor runs a [Tree]. Make one with [New].
type Supervisor struct {
	name        string
	tree        *Tree
	log         *slog.Logger
	hub         hub
	stopTimeout time.Duration

	mu      sync.Mutex
	running bool
	runs    int
	loop    *loop // of the newest Run
	left    []*run
}

// New validates the whole tree and returns its supervisor, not yet running. Errors say which child
// is wrong and what to do about it.
func New(name string, t Tree, opts ...Option) (*Supervisor, error) {
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("supervisor: root name %q: must not be empty and must not hold '/'",
			name)
	}
	if err := t.validate(name); err != nil {
		return nil, err
	}
	s := &Supervisor{name: name, tree: &t, log: slog.Default()}
	for _, o := range opts {
		o(s)
	}
	s.log = asynclog.Wrap(s.log)
	return s, nil
}

// Run starts the tree and keeps it running until ctx ends or it escalates. It returns only after
// every child has stopped or was abandoned: nil when it was asked to stop and all did, an
// [*EscalationError] when it gave up, a [*StuckError] when children were abandoned and are still
// running, and both when both are so.
//
// Children see the values of ctx, but not its end: they are stopped in order. context.Cause of
// their contexts is then that of ctx.
//
// Run may be called again after it has returned, but not while children that the last Run had to
// abandon are still running, for that would run two of them: it then returns the StuckError again.
func (s *Supervisor) Run(ctx context.Context) error {
	l, err := s.begin(ctx)
	if err != nil {
		return err
	}
	tell := func(t StepType, why error) {
		s.hub.publish(Step{Type: t, Path: s.name, Incarnation: l.incarnation, Err: why})
	}
	l.onReady = func() { tell(StepReady, nil) }
	l.onStop = func(why error) { tell(StepStopping, why) }
	tell(StepStarted, nil)
	var res result
	pprof.Do(ctx, pprof.Labels(labelPath, l.path, labelRun, l.id), func(ctx context.Context) {
		res = l.run(ctx)
	})
	res.left = lingering(res.left)
	s.mu.Lock()
	s.running, s.left = false, res.left
	s.mu.Unlock()
	err = res.err()
	tell(StepStopped, err)
	asynclog.Flush(s.log, time.Second)
	return err
}

func (s *Supervisor) begin(ctx context.Context) (*loop, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, errors.New("supervisor: " + s.name + " is running already: call Run again " +
			"after it has returned, or make another with New")
	}
	if s.left = lingering(s.left); len(s.left) > 0 {
		return nil, stuckError(s.left)
	}
	outer := ""
	if r := runOf(ctx); r != nil {
		outer = r.c.id()
	}
	s.running = true
	s.runs++
	s.loop = newLoop(loopConfig{
		path:        s.name,
		id:          newRunID(outer),
		incarnation: s.runs,
		tree:        s.tree,
		hub:         &s.hub,
		log:         s.log,
		base:        context.WithoutCancel(ctx),
		stopTimeout: s.stopTimeout,
	})
	return s.loop, nil
}
