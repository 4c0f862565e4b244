package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrStopped is returned when a supervisor's incarnation has ended or is stopping: no child can
	// be started there any more.
	ErrStopped = errors.New("supervisor: stopped")
	// ErrDuplicate is returned when a sibling of that name exists. One that was abandoned exists
	// until it has ended.
	ErrDuplicate = errors.New("supervisor: a child of this name exists")
	// ErrGoexit is the cause when a child ended its goroutine by runtime.Goexit.
	ErrGoexit = errors.New("supervisor: the child called runtime.Goexit")
	// ErrReturned is the cause when a Permanent child returned nil although nobody had asked it to
	// stop.
	ErrReturned = errors.New("supervisor: the child returned nil before it was asked to stop")
	// ErrUnreadable is the cause in place of an error, or the value in place of that of a panic,
	// that panics when it is printed, as a nil pointer in an error does.
	ErrUnreadable = errors.New("supervisor: it panics when it is printed")
)

// Why a child is asked to stop: context.Cause of its context is one of these, the
// [EscalationError] of a supervisor above it, or context.Cause of the context that Run was given.
var (
	// ErrRemoved is the cause when Handle.Stop removes the child.
	ErrRemoved = errors.New("supervisor: the child is removed")
	// ErrRestarted is the cause when the child is stopped to be started again with its group.
	ErrRestarted = errors.New("supervisor: the child is restarted with its group")
)

// Kind tells the ends of a child apart.
type Kind string

const (
	KindNil    Kind = "nil"    // returned nil
	KindError  Kind = "error"  // returned an error; for a Tree: escalated
	KindPanic  Kind = "panic"  // panicked, also with nil; the error is a *PanicError
	KindGoexit Kind = "goexit" // called runtime.Goexit; the error is ErrGoexit
	KindStuck  Kind = "stuck"  // did not stop in time; the error is a *StuckError
)

// End is one end of one child.
type End struct {
	Path        string
	Incarnation int
	When        time.Time
	Kind        Kind
	Err         error
}

func (c End) String() string {
	kind := string(c.Kind) + ": " // the text may begin with it: a panic's does
	return fmt.Sprintf("%s (incarnation %d): %s%s", c.Path, c.Incarnation, kind,
		strings.TrimPrefix(fmt.Sprint(c.Err), kind))
}

// attrs are what the log says of a failure: of a panic also its stack.
func (c End) attrs() []any {
	attrs := []any{"path", c.Path, "incarnation", c.Incarnation, "kind", string(c.Kind), "err",
		c.Err}
	if p, ok := c.Err.(*PanicError); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	return attrs
}

// MarshalJSON writes the error as its text.
func (c End) MarshalJSON() ([]byte, error) {
	text := ""
	if c.Err != nil {
		text = c.Err.Error()
	}
	return json.Marshal(struct {
		Path        string    `json:"path"`
		Incarnation int       `json:"incarnation"`
		When        time.Time `json:"when"`
		Kind        Kind      `json:"kind"`
		Err         string    `json:"err"`
	}{c.Path, c.Incarnation, c.When, c.Kind, text})
}

// EscalationError says that a supervisor gave up, and carries why.
type EscalationError struct {
	// Path of the supervisor that gave up.
	Path string
	// Reason in plain words.
	Reason string
	// Causes are the failures within Period of the child that broke the supervisor, or of the group
	// that restarts together, oldest first: about 100 at the most, or one more than MaxRestarts. The
	// Err of a nested supervisor is its own *EscalationError, so all levels are in it.
	Causes []End
}

// Error is one line, down to the last cause. See History for all.
func (e *EscalationError) Error() string {
	return fmt.Sprintf("supervisor %s gave up: %s", e.Path, e.why())
}

// childAsked is the reason for giving up that every level above has as well.
const childAsked = "a child cannot go on"

// why is the reason with the last cause. What a child has asked for is said once for all levels.
func (e *EscalationError) why() string {
	if len(e.Causes) == 0 {
		return e.Reason
	}
	last := e.Causes[len(e.Causes)-1]
	if inner, ok := last.Err.(*EscalationError); ok && e.Reason == childAsked {
		return inner.why()
	}
	return fmt.Sprintf("%s: %v", e.Reason, last)
}

// Unwrap gives the errors of the causes to errors.Is and errors.As.
func (e *EscalationError) Unwrap() []error {
	errs := make([]error, 0, len(e.Causes))
	for _, c := range e.Causes {
		if c.Err != nil {
			errs = append(errs, c.Err)
		}
	}
	return errs
}

// History is every cause through all levels, oldest first: what a nested supervisor gave up for
// comes before its giving up.
func (e *EscalationError) History() []End {
	var all []End
	for _, c := range e.Causes {
		if inner, ok := c.Err.(*EscalationError); ok {
			all = append(all, inner.History()...)
		}
		all = append(all, c)
	}
	return all
}

// PanicError is the cause when a child panicked.
type PanicError struct {
	// Value given to panic. For panic(nil) it is a *runtime.PanicNilError.
	Value any
	// Stack of the panicking goroutine, as of runtime/debug.Stack.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Unwrap gives the panic's value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Escalate wraps an error that no restart can mend. A child that returns it while it should run is
// not restarted: the whole tree escalates to the root at once. From a child whose context is done
// it means nothing, like any error. nil stays nil.
//
// It counts for the tree that the child is in. Where the host of that tree is a child of another
// supervisor and returns the tree's error, that one treats it as any failure.
func Escalate(err error) error {
	if err == nil {
		return nil
	}
	return &escalation{err}
}

type escalation struct{ err error }

func (e *escalation) Error() string { return e.err.Error() }
func (e *escalation) Unwrap() error { return e.err }

// escalates finds an Escalate in an error, but not in another supervisor's history.
func escalates(err error) bool {
	switch e := err.(type) {
	case *escalation:
		return true
	case *EscalationError:
		return false
	case interface{ Unwrap() error }:
		return escalates(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if escalates(inner) {
				return true
			}
		}
	}
	return false
}

// readable returns v, or an ErrUnreadable in its place if it panics when it is printed. It is called
// in the child's goroutine, before anybody else sees the value.
func readable[T any](v T) (safe T, bad error) {
	defer func() {
		if recover() != nil {
			bad = fmt.Errorf("%w: a %T", ErrUnreadable, v)
		}
	}()
	if err, ok := any(v).(error); ok {
		_ = err.Error()
		escalates(err)
	} else {
		_ = fmt.Sprint(v)
	}
	return v, nil
}
