package supervisor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
)

// Strategy says who is restarted when a child has failed.
type Strategy int

const (
	// OneForOne restarts the failed child alone. It is the zero value.
	OneForOne Strategy = iota
	// OneForAll stops all siblings in reverse and starts all again in order.
	OneForAll
	// RestForOne does so with the failed child and those after it.
	RestForOne
)

func (s Strategy) String() string {
	switch s {
	case OneForOne:
		return "one-for-one"
	case OneForAll:
		return "one-for-all"
	case RestForOne:
		return "rest-for-one"
	}
	return fmt.Sprintf("Strategy(%d)", int(s))
}

// MarshalText makes reports readable.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Tree describes a supervisor. It keeps running when all of its children are
// done, unless AutoShutdown says otherwise.
type Tree struct {
	Strategy Strategy

	// More than MaxRestarts restarts of one child within Period escalate. Only the time for which
	// the child runs counts towards Period, not that which it waits for its restarts: so a child
	// that fails after 2 s of running each time is given up at its eleventh failure, and one that
	// fails after 7 s never is, whatever its backoff. Children of OneForOne are counted apart from
	// one another: that many fail once together is no reason to give up. With the other strategies
	// the group is counted, each restart of it once, and the time for which it runs. Default (0) 10
	// within 1 minute; a negative MaxRestarts never escalates, NoRestarts does at the first
	// failure.
	MaxRestarts int
	Period      time.Duration

	// StopTogether asks all children to stop at once, each with its own deadline,
	// instead of one after the other in reverse: for many children alike that need
	// not outlive one another.
	StopTogether bool

	// AutoShutdown says when the tree ends by itself. Default Never.
	AutoShutdown AutoShutdown

	// Children are started in this order and stopped in reverse.
	Children []Child
}

func (t *Tree) validate(path string, above ...*Tree) error {
	switch {
	case t.Strategy < OneForOne || t.Strategy > RestForOne:
		return fmt.Errorf(
			"supervisor: %s: unknown strategy %d: use OneForOne, OneForAll or RestForOne",
			path,
			t.Strategy,
		)
	case t.AutoShutdown < Never || t.AutoShutdown > AllDone:
		return fmt.Errorf(
			"supervisor: %s: unknown AutoShutdown %d: "+
				"use Never, AnySignificant, AllSignificant or AllDone",
			path,
			t.AutoShutdown,
		)
	case t.Period < 0:
		return fmt.Errorf(
			"supervisor: %s: negative Period %v: use 0 for the default",
			path,
			t.Period,
		)
	}
	above = append(slices.Clip(above), t)
	for i := range t.Children {
		c := &t.Children[i]
		if err := c.validate(path, above...); err != nil {
			return err
		}
		if err := t.accepts(path, c); err != nil {
			return err
		}
	}
	if name, found := t.nameOfTwo(); found {
		return fmt.Errorf(
			"supervisor: %s/%s: %w: give each sibling a name of its own",
			path,
			name,
			ErrDuplicate,
		)
	}
	return nil
}

// nameOfTwo finds a name that two children have. Who has none of their hashes twice needs no map of
// names, which would take five times the memory.
func (t *Tree) nameOfTwo() (name string, found bool) {
	seed := maphash.MakeSeed()
	hashes := make([]uint64, len(t.Children))
	for i := range t.Children {
		hashes[i] = maphash.String(seed, t.Children[i].Name)
	}
	slices.Sort(hashes)
	if len(slices.Compact(hashes)) == len(t.Children) {
		return "", false
	}
	seen := make(map[string]bool, len(t.Children))
	for i := range t.Children {
		if name = t.Children[i].Name; seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

// clone keeps the caller's later changes out of a running supervisor.
func (t *Tree) clone() *Tree {
	d := *t
	d.Children = slices.Clone(t.Children)
	for i := range d.Children {
		if c := &d.Children[i]; c.Tree != nil {
			c.Tree = c.Tree.clone()
		}
	}
	return &d
}

func (t *Tree) maxRestarts() int {
	switch t.MaxRestarts {
	case 0:
		return DefaultMaxRestarts
	case NoRestarts:
		return 0
	}
	return t.MaxRestarts
}

func (t *Tree) period() time.Duration {
	if t.Period == 0 {
		return DefaultPeriod
	}
	return t.Period
}

// Option changes a Supervisor at its making.
type Option func(*Supervisor)

// WithLogger sets where failures, escalations and stuck children are logged.
// Default slog.Default() at the time of the call to New. What goes well is not
// logged: see [Supervisor.Subscribe]. The supervisor never waits for the logger's
// handler: what that cannot take is dropped and counted. Run waits up to a second
// at its end for what is still to be written.
func WithLogger(log *slog.Logger) Option {
	return func(s *Supervisor) {
		if log != nil {
			s.log = log
		}
	}
}

// WithStopTimeout bounds the whole stop: when it has lasted for d, all children that are left are
// asked to stop at once and have 100 ms. Default (0), and
// [Unlimited]: the deadlines of the children alone.
func WithStopTimeout(d time.Duration) Option {
	return func(s *Supervisor) {
		if s.stopTimeout = max(d, 0); d == Unlimited {
			s.stopTimeout = 0
		}
	}
}

// Supervisor runs a [Tree]. Make one with [New].
type Supervisor struct {
	name string
	tree *Tree
	log  *slog.Logger
	hub  hub

	stopTimeout time.Duration
	withCause   bool

	mu        sync.Mutex
	running   bool
	runs      int
	loop      *loop // of the newest Run
	leftovers []*run
}

// New validates the whole tree and returns its supervisor, not yet running.
// Errors say which child is wrong and what to do about it.
func New(name string, t Tree, opts ...Option) (*Supervisor, error) {
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf(
			"supervisor: root name %q: must not be empty and must not hold '/'",
			name,
		)
	}
	if err := t.validate(name); err != nil {
		return nil, err
	}
	s := &Supervisor{name: name, tree: t.clone(), log: slog.Default()}
	for _, o := range opts {
		o(s)
	}
	s.log = asynclog.Wrap(s.log)
	return s, nil
}

// Run starts the tree and keeps it running until ctx ends or it escalates. It
// returns only after every child has stopped or was abandoned: nil when it was
// asked to stop and all did (see [WithCause]), an [*EscalationError] when it gave up, a
// [*StuckError] when children were abandoned and are still running, both joined
// when both are so.
//
// Children see the values of ctx, but not its end: they are stopped in order. context.Cause of
// their contexts is then that of ctx.
//
// Run may be called again after it returned, not before; and not while children
// that the last Run had to abandon are still running, for that would run two of
// them: it then returns the StuckError again.
func (s *Supervisor) Run(ctx context.Context) error {
	l, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.hub.publish(Event{Type: EventStarted, Path: s.name, Incarnation: l.incarnation})
	var res result
	pprof.Do(ctx, pprof.Labels(labelPath, l.path, labelRun, l.id), func(ctx context.Context) {
		res = l.run(ctx)
	})
	if res.leftovers = lingering(res.leftovers); len(res.leftovers) == 0 {
		l.awaitLate()
	}
	s.mu.Lock()
	s.running = false
	s.leftovers = res.leftovers
	s.mu.Unlock()
	err = s.stopped(res)
	s.hub.publish(Event{Type: EventStopped, Path: s.name, Incarnation: l.incarnation, Err: err})
	asynclog.Flush(s.log, time.Second)
	return err
}

func (s *Supervisor) begin(ctx context.Context) (*loop, error) {
	last, err := s.claim()
	if err != nil {
		return nil, err
	}
	if last != nil {
		last.awaitLate()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	l := newLoop(loopConfig{
		path:        s.name,
		id:          newRunID(ctx),
		incarnation: s.runs,
		tree:        s.tree,
		hub:         &s.hub,
		log:         s.log,
		base:        context.WithoutCancel(ctx),
		root:        true,
		stopTimeout: s.stopTimeout,
	})
	l.onReady = func() {
		s.hub.publish(Event{Type: EventReady, Path: s.name, Incarnation: l.incarnation})
	}
	s.loop = l
	return l, nil
}

// claim makes the caller the one who runs the tree, if nobody does, and nothing of the last Run is
// left. It gives that one's loop.
func (s *Supervisor) claim() (last *loop, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, errors.New(
			"supervisor: " + s.name + " is running already: " +
				"call Run again after it has returned, or make another with New",
		)
	}
	if s.leftovers = lingering(s.leftovers); len(s.leftovers) > 0 {
		return nil, stuckError(s.leftovers)
	}
	s.running = true
	return s.loop, nil
}
