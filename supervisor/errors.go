package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrStopped is returned when a supervisor's incarnation has ended or is
	// stopping: no child can be started or found there any more.
	ErrStopped = errors.New("supervisor: stopped")
	// ErrDuplicate is returned when a sibling of that name exists, be it one that
	// was abandoned and has not ended yet.
	ErrDuplicate = errors.New("supervisor: a child of this name exists")
	// ErrUnknown is returned when there is no child of that name.
	ErrUnknown = errors.New("supervisor: no child of this name")
	// ErrGoexit is the cause when a child ended its goroutine by runtime.Goexit.
	ErrGoexit = errors.New("supervisor: the child called runtime.Goexit")
	// ErrDoNotRestart is returned, plain or wrapped, by a child that has done its
	// work: whatever its Restart type, it is done, as if it were Transient and had
	// returned nil, and no group restart starts it again.
	ErrDoNotRestart = errors.New("supervisor: the child need not be restarted")
	// ErrTerminate is returned, plain or wrapped, by a child whose end is that of
	// all: the whole tree is stopped in order, up to the root, and Run returns nil.
	// With WithCause, it returns this error, if nothing else had asked before. Use
	// Escalate for what has failed.
	ErrTerminate = errors.New("supervisor: the tree is to be stopped")
	// ErrReturned is the cause when a Permanent child returned nil although
	// nobody had asked it to stop.
	ErrReturned = errors.New("supervisor: the child returned nil before it was asked to stop")
)

// Kind tells the endings of a child apart.
type Kind string

const (
	KindNil    Kind = "nil"    // returned nil
	KindError  Kind = "error"  // returned an error; for a Tree: escalated
	KindPanic  Kind = "panic"  // panicked, also with nil; the error is a *PanicError
	KindGoexit Kind = "goexit" // called runtime.Goexit; the error is ErrGoexit
	KindDone   Kind = "done"   // returned ErrDoNotRestart or ErrTerminate
	KindStuck  Kind = "stuck"  // did not stop in time; the error is a *StuckError
)

// failed tells the endings that are failures; nil, from a Permanent child, is one too.
func (k Kind) failed() bool { return k != KindNil && k != KindDone }

// Cause is one end of one child: an entry of the history that an
// [EscalationError] carries.
type Cause struct {
	Path        string
	Incarnation int
	When        time.Time
	Kind        Kind
	Err         error

	canceled bool // Err is the end of a context
}

func (c Cause) String() string {
	return fmt.Sprintf("%s (incarnation %d): %s: %v", c.Path, c.Incarnation, c.Kind, c.Err)
}

// MarshalJSON writes the error as its text.
func (c Cause) MarshalJSON() ([]byte, error) {
	text := ""
	if c.Err != nil {
		text = fmt.Sprint(c.Err) // which stands a panic of its methods
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
	// Causes, oldest first, the last one being what broke it: the failures that were counted, or,
	// where it gave up for another reason, those of its children within Period (at most the newest
	// 100). The Err of a nested supervisor is its own *EscalationError, so all levels are in it.
	Causes []Cause
}

// Error is one line, down to the last cause. See History and %+v for all.
func (e *EscalationError) Error() string {
	return fmt.Sprintf("supervisor %s gave up: %s", e.Path, e.why())
}

// childAsked is the reason for giving up that every level above has as well.
const childAsked = "a child asked for it"

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

// History is every cause through all levels, oldest first: what a nested
// supervisor gave up for comes before its giving up.
func (e *EscalationError) History() []Cause {
	var all []Cause
	for _, c := range e.Causes {
		if inner, ok := c.Err.(*EscalationError); ok {
			all = append(all, inner.History()...)
		}
		all = append(all, c)
	}
	return all
}

// Format prints with %+v the whole history, a line for each cause.
func (e *EscalationError) Format(f fmt.State, verb rune) {
	if verb != 'v' || !f.Flag('+') {
		fmt.Fprint(f, e.Error())
		return
	}
	fmt.Fprintf(f, "supervisor %s gave up: %s", e.Path, e.Reason)
	for _, c := range e.History() {
		text := fmt.Sprint(c.Err)
		if inner, ok := c.Err.(*EscalationError); ok {
			text = "gave up: " + inner.Reason
		}
		fmt.Fprintf(f, "\n%s%s %s (incarnation %d): %s: %s",
			strings.Repeat("  ", strings.Count(c.Path, "/")),
			c.When.Format("15:04:05.000"), c.Path, c.Incarnation, c.Kind, text)
	}
}

// bothErrors is errors.Join with one twist: errors.As must find the StuckError
// that names all, before one that is among the causes of the first.
type bothErrors struct {
	first error
	stuck *StuckError
}

func (e *bothErrors) Error() string   { return e.first.Error() + "\n" + e.stuck.Error() }
func (e *bothErrors) Unwrap() []error { return []error{e.stuck, e.first} }

// Format prints with %+v the escalation's whole history.
func (e *bothErrors) Format(f fmt.State, verb rune) {
	format := "%v\n%v"
	if verb == 'v' && f.Flag('+') {
		format = "%+v\n%v"
	}
	fmt.Fprintf(f, format, e.first, e.stuck)
}

// PanicError is the cause when a child panicked.
type PanicError struct {
	// Value given to panic; for panic(nil) a *runtime.PanicNilError.
	Value any
	// Stack of the panicking goroutine, as of runtime/debug.Stack.
	Stack []byte

	text       string // of the value, where it was caught
	unreadable bool   // the value is an error that harms who reads it
}

func (e *PanicError) Error() string {
	if e.text == "" {
		return "panic: " + textOf(e.Value)
	}
	return "panic: " + e.text
}

// Unwrap gives the panic's value when it is an error that can be read.
func (e *PanicError) Unwrap() error {
	if e.unreadable {
		return nil
	}
	err, _ := e.Value.(error)
	return err
}

// Escalate wraps an error that no restart can mend. A child that returns it
// while it should run is not restarted: the whole tree escalates to the root at
// once, whatever budgets are left. From a child whose context is done it means
// nothing, like any error. nil stays nil.
//
// It goes before an ErrDoNotRestart and ErrTerminate in the same error.
//
// It counts for the tree that the child is in. When the root returned it to its
// host, and the host is a child of yet another supervisor, that one treats it as
// any failure.
func Escalate(err error) error {
	if err == nil {
		return nil
	}
	return &escalation{err}
}

type escalation struct{ err error }

func (e *escalation) Error() string { return e.err.Error() }
func (e *escalation) Unwrap() error { return e.err }
