package supervisor

import (
	"context"
	"fmt"
)

// Why a child is asked to stop: context.Cause of its context is, or wraps, one of these; the
// [EscalationError] of a supervisor above it; what said [ErrTerminate]; or context.Cause of the
// context that Run was given. These match context.Canceled as well.
var (
	// ErrRemoved is the cause when Group.Stop or Handle.Stop removes the child.
	ErrRemoved error = canceled("supervisor: the child is removed")
	// ErrRestarted is the cause when the child is stopped to be started again, with its group for
	// instance. What failed is wrapped beside it.
	ErrRestarted error = canceled("supervisor: the child is stopped to be started again")
	// ErrShutdown is the cause when the tree ends by itself: see AutoShutdown.
	ErrShutdown error = canceled("supervisor: the tree ends by itself")
)

// canceled are errors that mean a context's end.
type canceled string

func (c canceled) Error() string        { return string(c) }
func (c canceled) Is(target error) bool { return target == context.Canceled }

// StoppedError tells, with [WithCause], why Run was asked to stop.
type StoppedError struct {
	// Path of the root.
	Path string
	// Cause is context.Cause of the context that Run was given, or what a child returned with
	// ErrTerminate.
	Cause error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("supervisor: %s was stopped: %v", e.Path, e.Cause)
}

// Unwrap gives the cause.
func (e *StoppedError) Unwrap() error { return e.Cause }

// WithCause makes Run return why it was asked to stop, a *[StoppedError], where it would return
// nil. A tree that ended by itself returns nil still.
func WithCause() Option {
	return func(s *Supervisor) { s.withCause = true }
}

// restartedWith is the cause for the siblings of a child that failed.
func restartedWith(cause Cause) error {
	return fmt.Errorf("%w: %s failed: %w", ErrRestarted, cause.Path, cause.Err)
}

// shutdownBy is the cause when the end of a child is that of its tree.
func (l *loop) shutdownBy(c *child) error {
	err := fmt.Errorf("%w: %s has ended", ErrShutdown, c.path)
	if l.failed != nil {
		err = fmt.Errorf("%w: %w", err, l.failed)
	}
	return err
}

// stopped is what Run returns at its end.
func (s *Supervisor) stopped(res result) error {
	err := res.err()
	why := res.outside
	if res.terminated != nil {
		why = res.terminated
	}
	if err == nil && s.withCause && why != nil {
		return &StoppedError{s.name, why}
	}
	return err
}
