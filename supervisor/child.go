package supervisor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Defaults for the zero values of [Child] and [Tree].
const (
	DefaultStopTimeout  = 5 * time.Second
	DefaultHealthyAfter = 30 * time.Second
	DefaultMaxRestarts  = 10
	DefaultPeriod       = time.Minute
)

// NoRestarts is a MaxRestarts of none: the first failure escalates.
const NoRestarts = math.MinInt

// Stop timeouts that are none.
const (
	// Unlimited waits for as long as it takes, unless a tree around it or WithStopTimeout has a
	// deadline.
	Unlimited time.Duration = math.MaxInt64
	// NoWait asks the child to stop and abandons it unless it does so at once.
	NoWait time.Duration = 1
)

// abortGrace is what is left to the children of a tree whose own StopTimeout is
// over: they are all asked at once, because those that were waiting for their
// turn have done nothing wrong and are often quick.
const abortGrace = 100 * time.Millisecond

// orderLasts is how long children that hang may hold up the stop of those before them, all
// together. Then the rest is asked at once, each with its own deadline: a hundred that hang would
// else take a hundred deadlines.
const orderLasts = 30 * time.Second

// gateWord is how long a gate may be closed before the log says so; later it does each time that
// this has doubled.
const gateWord = 10 * time.Second

// Restart says which endings of a child are followed by a new incarnation.
// Names and meanings are those of Erlang/OTP's supervisor.
type Restart int8

const (
	// Permanent is the zero value: however it ended, the child is restarted.
	Permanent Restart = iota
	// Transient restarts the child unless it returned nil.
	Transient
	// Temporary never restarts the child.
	Temporary
)

func (r Restart) String() string {
	switch r {
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	case Temporary:
		return "temporary"
	}
	return fmt.Sprintf("Restart(%d)", int(r))
}

// MarshalText makes reports readable.
func (r Restart) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Child says how to run and keep one actor. Name and one of Run and Tree are
// required; every other zero value is a sensible default.
type Child struct {
	// Name is unique among its siblings and holds no '/'.
	Name string

	// Run is the actor. It runs until its context ends and then returns; what it
	// returns after that does not matter. An end before that is a failure, except
	// nil for Transient and Temporary children. Goroutines that it starts itself
	// are its own: the supervisor cannot catch their panics.
	Run func(ctx context.Context) error

	// Tree is a nested supervisor. Each incarnation starts from this description:
	// dynamic children of the one before are not carried over.
	Tree *Tree

	Restart Restart

	// Significant children count for the AutoShutdown of their tree. They are Transient or
	// Temporary.
	Significant bool

	// Gate holds the next sibling back until this child has called [Ready]; a Tree
	// is ready when all of its children have started and its gated ones are ready.
	// A gated child that is done (nil, Transient or Temporary) opens its gate; a
	// Temporary one that fails, or is stopped with its group, before it was ready
	// escalates, because nothing could ever open it: one that was restarted by hand
	// and fails does when its group is started again.
	Gate bool

	// StopTimeout is how long the child may take to stop after its context ended;
	// then it is abandoned and named in a [StuckError]. Default 5 s; see [Unlimited]
	// and [NoWait]. A Tree has by
	// default no deadline of its own, only those of what is inside; with one, all
	// that is left inside when it is over is asked to stop at once and
	// has 100 ms.
	StopTimeout time.Duration

	// Backoff returns a new policy for this child; called once, at its first
	// failure. Default: Exponential(100 ms, 10 s). It must not block: the supervisor
	// waits for it.
	Backoff func() Backoff

	// HealthyAfter is the length of a run that resets the backoff. Default 30 s.
	HealthyAfter time.Duration
}

// validate looks at all that is below as well; above are the trees that the child is in.
func (c *Child) validate(parent string, above ...*Tree) error {
	path := func() string { return parent + "/" + c.Name }
	switch {
	case c.Name == "":
		return fmt.Errorf("supervisor: a child of %s has no name: set Child.Name", parent)
	case strings.Contains(c.Name, "/"):
		return fmt.Errorf(
			"supervisor: child %q of %s: a name must not hold '/', "+
				"it separates the levels of a path",
			c.Name,
			parent,
		)
	case c.Run == nil && c.Tree == nil:
		return fmt.Errorf("supervisor: %s has nothing to run: set Child.Run or Child.Tree", path())
	case c.Run != nil && c.Tree != nil:
		return fmt.Errorf("supervisor: %s has both Run and Tree: set one of them", path())
	case c.Restart < Permanent || c.Restart > Temporary:
		return fmt.Errorf(
			"supervisor: %s: unknown restart type %d: use Permanent, Transient or Temporary",
			path(),
			c.Restart,
		)
	case c.StopTimeout < 0:
		return fmt.Errorf(
			"supervisor: %s: negative StopTimeout %v: use 0 for the default",
			path(),
			c.StopTimeout,
		)
	case c.HealthyAfter < 0:
		return fmt.Errorf(
			"supervisor: %s: negative HealthyAfter %v: use 0 for the default",
			path(),
			c.HealthyAfter,
		)
	}
	if slices.Contains(above, c.Tree) && c.Tree != nil {
		return fmt.Errorf(
			"supervisor: %s: its Tree is one that it is in itself: make another one",
			path(),
		)
	}
	if c.Tree != nil {
		return c.Tree.validate(path(), above...)
	}
	return nil
}

// stopTimeout is 0 where there is no deadline.
func (c *Child) stopTimeout() time.Duration {
	switch {
	case c.StopTimeout == Unlimited:
		return 0
	case c.StopTimeout == 0 && c.Tree == nil:
		return DefaultStopTimeout
	}
	return c.StopTimeout
}

func (c *Child) healthyAfter() time.Duration {
	if c.HealthyAfter == 0 {
		return DefaultHealthyAfter
	}
	return c.HealthyAfter
}
