package supervisor

import (
	"context"
	"fmt"
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

// abortGrace is what the children of a tree have when the deadline of the whole tree is over. All
// are asked at once then: those that waited for their turn are often quick.
const abortGrace = 100 * time.Millisecond

// gateWord is how long a gate may be closed before the log says so. The log says it again each time
// that this has doubled.
const gateWord = 10 * time.Second

// Restart says which ends of a child are followed by a new incarnation. Names and meanings are
// those of Erlang/OTP's supervisor.
type Restart int8

const (
	// Permanent is the zero value: the child is restarted however it ended.
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

// Child says how to run and keep one actor. Name and one of Run and Tree are required. Every other
// zero value is a sensible default.
type Child struct {
	// Name is unique among its siblings and holds no '/'.
	Name string

	// Run is the actor. It runs until its context ends and then returns. What it returns after that
	// does not matter. An end before that is a failure, except nil for Transient and Temporary
	// children. The supervisor cannot catch panics of goroutines that Run starts itself.
	Run func(ctx context.Context) error

	// Tree is a nested supervisor. Each incarnation starts from this description: dynamic children
	// of the one before are not carried over.
	Tree *Tree

	Restart Restart

	// Gate holds the next sibling back until this child has called [Ready]. A Tree is ready when
	// all of its children have started and its gated ones are ready. A gated child that is done
	// opens its gate. One that ends for good in another way before it was ready escalates.
	Gate bool

	// StopTimeout is how long the child may take to stop after its context ended. Then it is
	// abandoned and named in a [StuckError]. Default 5 s. A Tree has by default only the deadlines
	// of its children. When a Tree's own StopTimeout is over, all children that are left in it are
	// asked to stop at once and have 100 ms.
	StopTimeout time.Duration

	// Backoff returns a new policy for this child. It is called once, at the first failure.
	// Default: Exponential(100 ms, 10 s). The supervisor waits for it: it must not block.
	Backoff func() Backoff

	// HealthyAfter is the length of a run that resets the backoff. Default 30 s.
	HealthyAfter time.Duration
}

func (c *Child) validate(parent string) error {
	path := func() string { return parent + "/" + c.Name }
	switch {
	case c.Name == "":
		return fmt.Errorf("supervisor: a child of %s has no name: set Child.Name", parent)
	case strings.Contains(c.Name, "/"):
		return fmt.Errorf("supervisor: child %q of %s: a name must not hold '/', it separates the "+
			"levels of a path", c.Name, parent)
	case (c.Run == nil) == (c.Tree == nil):
		return fmt.Errorf("supervisor: %s: set one of Child.Run and Child.Tree", path())
	case c.Restart < Permanent || c.Restart > Temporary:
		return fmt.Errorf("supervisor: %s: unknown restart type %d: use Permanent, Transient or "+
			"Temporary", path(), c.Restart)
	case c.StopTimeout < 0 || c.HealthyAfter < 0:
		return fmt.Errorf("supervisor: %s: negative StopTimeout or HealthyAfter: use 0 for the "+
			"default", path())
	case c.Tree != nil:
		return c.Tree.validate(path())
	}
	return nil
}

// restarts tells whether an end by itself is followed by a new incarnation.
func (c *Child) restarts(failed bool) bool {
	return c.Restart == Permanent || c.Restart == Transient && failed
}

// stopTimeout is 0 where there is no deadline.
func (c *Child) stopTimeout() time.Duration {
	if c.StopTimeout == 0 && c.Tree == nil {
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
