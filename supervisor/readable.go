package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// ErrUnreadable is the cause when a child returned an error that harms whoever reads it: a method
// of it panics, as those of a nil pointer in an error do, or it wraps itself. The text tells its
// type. Nothing else is kept of it.
var ErrUnreadable = errors.New("supervisor: the child returned an error that cannot be read")

// mostErrors are in one error at the most: a job may join one for each of its rows. An error with
// more wraps itself. Nor does a panic's value have more parts, each counted as often as it would be
// written out.
const mostErrors = 100_000

// readable looks at err where a panic is caught, in the child's own goroutine: afterwards the
// supervisor, and its host, may read what it returns. asks says what somewhere in it is asked for,
// canceled that it is a context's end.
func readable(err error) (safe error, asks request, canceled bool) {
	asks, _, why := look(err)
	if why == "" {
		why = attempt(err, func() {
			_ = err.Error()
			if f, ok := err.(fmt.Formatter); ok {
				f.Format(nowhere{}, 'v')
			}
			if canceled = err == context.Canceled; !plain(err) {
				canceled = errors.Is(err, context.Canceled)
				var stuck *StuckError
				_ = errors.As(err, &stuck)
			}
		})
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrUnreadable, why), asks, false
	}
	return err, asks, canceled
}

// plain errors have nothing for errors.Is and errors.As to call.
func plain(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }, interface{ Is(error) bool },
		interface{ As(any) bool }:
		return false
	}
	return true
}

// request is what a child asks for by its error. The greatest counts.
type request int8

const (
	asksForNothing request = iota
	asksForNoRestart
	asksToTerminate
	asksToEscalate
)

// look goes through wrapped and joined errors. It tells what they ask for, whether they have no
// end, and why they cannot be read. What is in another supervisor's history has been dealt with,
// and what an error without an Unwrap returns by its method Hidden is not meant for this
// supervisor: both ask for nothing. They are gone through all the same, for texts are made of them.
func look(err error) (asks request, endless bool, why string) {
	asks, endless, why = (&looker{histories: map[*EscalationError]bool{}}).look(err, false)
	if endless {
		why = fmt.Sprintf("%T wraps itself, or more than %d others", err, mostErrors)
	}
	return asks, endless, why
}

// looker goes through one error.
type looker struct {
	histories map[*EscalationError]bool // those that it has come to; true: has gone through
}

// found is an error in another one. What is quiet asks for nothing.
type found struct {
	err   error
	quiet bool
}

func (l *looker) look(err error, quiet bool) (asks request, endless bool, why string) {
	rest := []found{{err, quiet}}
	for n := 0; len(rest) > 0; n++ {
		if n == mostErrors {
			return asks, true, why
		}
		at := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if !at.quiet {
			asks = max(asks, asked(at.err))
		}
		bad := ""
		if e, ok := at.err.(*EscalationError); ok {
			if endless, bad = l.history(e); endless {
				return asks, true, why
			}
		} else {
			var inner []error
			inner, quiet, bad = within(at.err)
			for _, e := range inner {
				rest = append(rest, found{e, at.quiet || quiet})
			}
		}
		if why == "" {
			why = bad
		}
	}
	return asks, false, why
}

// history goes through the causes of another supervisor. Each of them may have as many errors in it
// as an error may.
func (l *looker) history(e *EscalationError) (endless bool, why string) {
	if through, known := l.histories[e]; known {
		return !through, ""
	}
	if len(l.histories) == mostErrors {
		return true, ""
	}
	l.histories[e] = false
	var causes []error
	why = attempt(e, func() { causes = e.Unwrap() })
	for _, cause := range causes {
		_, endless, bad := l.look(cause, true)
		if endless {
			return true, ""
		}
		if why == "" {
			why = bad
		}
	}
	l.histories[e] = true
	return false, why
}

// asked is what an error asks for by itself.
func asked(err error) request {
	switch err {
	case ErrTerminate:
		return asksToTerminate
	case ErrDoNotRestart:
		return asksForNoRestart
	}
	if _, ok := err.(*escalation); ok {
		return asksToEscalate
	}
	return asksForNothing
}

// within are the errors that an error wraps, joins or hides. It tells whether those ask for
// nothing, and why they cannot be read.
func within(err error) (inner []error, quiet bool, why string) {
	switch e := err.(type) {
	case *StoppedError:
		quiet = true
		why = attempt(e, func() { inner = []error{e.Cause} })
	case interface{ Unwrap() error }:
		why = attempt(e, func() { inner = []error{e.Unwrap()} })
	case interface{ Unwrap() []error }:
		why = attempt(e, func() { inner = e.Unwrap() })
	case interface{ Hidden() error }:
		quiet = true
		why = attempt(e, func() { inner = []error{e.Hidden()} })
	}
	return inner, quiet, why
}

// attempt calls f, and tells in words when that panics.
func attempt(err any, f func()) (why string) {
	over := false
	defer func() {
		if over {
			return
		}
		if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
			_ = recover()
			why = fmt.Sprintf("it is a nil %T: return nil itself when there is no error", err)
			return
		}
		why = fmt.Sprintf("a method of %T panics: %s", err, plainly(recover()))
	}()
	f()
	over = true
	return ""
}

// plainly tells in words what a method panicked with, by its type if that panics as well. fmt
// would panic then, and it would write out a value without an end.
func plainly(v any) (text string) {
	text = fmt.Sprintf("a %T", v)
	defer func() { _ = recover() }()
	if err, ok := v.(error); ok {
		if _, endless, _ := look(err); !endless {
			text = err.Error()
		}
	} else if !endless(v) {
		text = fmt.Sprint(v)
	}
	return text
}

// nowhere is where a Formatter writes to that is tried.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Width() (int, bool)          { return 0, false }
func (nowhere) Precision() (int, bool)      { return 0, false }
func (nowhere) Flag(int) bool               { return false }

// textOf is a panic's value in words. One that holds itself, which fmt would follow until the stack
// is full and the process ends, is told by its type. So is one whose methods panic: fmt stands the
// first panic, and not one of its value's.
func textOf(v any) (text string) {
	if err, ok := v.(error); ok {
		safe, _, _ := readable(err)
		v = safe
	} else if endless(v) {
		return fmt.Sprintf("a %T that holds itself, or more than %d others", v, mostErrors)
	}
	why := attempt(v, func() {
		switch v := v.(type) {
		case error:
			text = v.Error()
		case fmt.Stringer:
			if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
				text = fmt.Sprintf("a nil %T", v)
				return
			}
			text = v.String()
		default:
			text = fmt.Sprint(v)
		}
	})
	if why != "" {
		return why
	}
	return text
}

// endless tells whether fmt would come back to a value that it is writing out, or write out more
// than anybody waits for: a list of a list twice, of a list twice, is twice as long at each level.
func endless(v any) bool {
	return (&follower{path: map[uintptr]bool{}}).endless(reflect.ValueOf(v), true)
}

// follower follows what fmt follows, pointers at the top only, and the errors in it, whose methods
// fmt calls.
type follower struct {
	path map[uintptr]bool // the slices and maps that it is in
	seen int
}

func (f *follower) endless(v reflect.Value, top bool) bool {
	if f.seen++; f.seen > mostErrors {
		return true
	}
	into := func(parts ...reflect.Value) bool {
		for _, p := range parts {
			if f.endless(p, false) {
				return true
			}
		}
		return false
	}
	if v.IsValid() && v.CanInterface() && !top {
		if err, ok := v.Interface().(error); ok {
			_, endless, _ := look(err)
			return endless
		}
	}
	switch v.Kind() {
	case reflect.Interface:
		return into(v.Elem())
	case reflect.Pointer:
		return top && into(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if into(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice, reflect.Map:
		at := v.Pointer()
		if v.Len() == 0 || at == 0 {
			return false
		}
		if f.path[at] {
			return true
		}
		f.path[at] = true
		defer delete(f.path, at)
		if v.Kind() == reflect.Map {
			for i := v.MapRange(); i.Next(); {
				if into(i.Key(), i.Value()) {
					return true
				}
			}
			return false
		}
		return f.inElements(v)
	case reflect.Array:
		return f.inElements(v)
	}
	return false
}

func (f *follower) inElements(v reflect.Value) bool {
	switch v.Type().Elem().Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct,
		reflect.Array:
		for i := range v.Len() {
			if f.endless(v.Index(i), false) {
				return true
			}
		}
	}
	return false
}
