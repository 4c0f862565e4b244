package supervisor

import (
	"context"
	"fmt"
	"strings"
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
	// ErrTerminate: what came first.
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

// story is an error made of texts and errors. It is told when somebody asks: the loop calls no
// method of a child's error, which may wait for whoever waits for the loop.
type story struct{ parts []any }

func (s *story) Error() string {
	return fmt.Sprintf(strings.Repeat("%v", len(s.parts)), s.parts...)
}

// Unwrap gives the errors.
func (s *story) Unwrap() (errs []error) {
	for _, part := range s.parts {
		if err, ok := part.(error); ok {
			errs = append(errs, err)
		}
	}
	return errs
}

// restartedWith is the cause for the siblings of a child that failed.
func restartedWith(cause Cause) error {
	return &story{[]any{ErrRestarted, ": " + cause.Path + " failed: ", cause.Err}}
}

// shutdownBy is the cause when the end of a child is that of its tree.
func (l *loop) shutdownBy(c *child) error {
	err := &story{[]any{ErrShutdown, ": " + c.path + " has ended"}}
	if l.failed != nil {
		err.parts = append(err.parts, ": ", l.failed)
	}
	return err
}

// stopped is what Run returns at its end.
func (s *Supervisor) stopped(res result) error {
	err := res.err()
	if err == nil && s.withCause && res.asked != nil {
		return &StoppedError{s.name, res.asked}
	}
	return err
}
