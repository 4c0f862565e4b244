package supervisor

import (
	"fmt"
	"slices"
	"time"
)

// Strategy says which children are restarted when one has failed.
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

// Tree describes a supervisor. It must not be changed after it was given to [New] or [Group.Start].
type Tree struct {
	Strategy Strategy

	// More than MaxRestarts restarts of one child within Period escalate. Only the time for which
	// the child runs counts towards Period, without the waits for its restarts. So a child that
	// fails after 2 s of running each time is given up at its eleventh failure, and one that fails
	// after 7 s never is, whatever its backoff. With OneForOne each child is counted alone. With
	// the other strategies the group is counted, each restart of it once. Default (0): 10 within 1
	// minute. A negative MaxRestarts never escalates.
	MaxRestarts int
	Period      time.Duration

	// StopTogether asks all children to stop at once, each with its own deadline, instead of one
	// after the other in reverse. It is for many children that need not outlive one another.
	StopTogether bool

	// Children are started in this order and stopped in reverse.
	Children []Child
}

func (t *Tree) validate(path string) error {
	switch {
	case t.Strategy < OneForOne || t.Strategy > RestForOne:
		return fmt.Errorf("supervisor: %s: unknown strategy %d: use OneForOne, OneForAll or "+
			"RestForOne", path, t.Strategy)
	case t.Period < 0:
		return fmt.Errorf("supervisor: %s: negative Period %v: use 0 for the default", path,
			t.Period)
	}
	names := make([]string, len(t.Children))
	for i := range t.Children {
		if err := t.Children[i].validate(path); err != nil {
			return err
		}
		names[i] = t.Children[i].Name
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return fmt.Errorf("supervisor: %s/%s: %w: give each sibling a name of its own", path,
				names[i], ErrDuplicate)
		}
	}
	return nil
}

func (t *Tree) maxRestarts() int {
	if t.MaxRestarts == 0 {
		return DefaultMaxRestarts
	}
	return t.MaxRestarts
}

func (t *Tree) period() time.Duration {
	if t.Period == 0 {
		return DefaultPeriod
	}
	return t.Period
}
