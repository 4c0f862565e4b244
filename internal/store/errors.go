package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure. Every error of this package matches exactly one, but
// for ErrNoAnswer.
var (
	// ErrSessionGone is returned when Consul does not know the session any
	// more: a renewal answered 404, or a lock named a dead session. All that
	// was held by it is over; open a new one.
	ErrSessionGone = errors.New("the session is gone")

	// ErrRefused is returned when a condition of a transaction did not hold
	// at the moment it was applied. Nothing of the transaction was applied.
	// The details are in a [RefusedError].
	ErrRefused = errors.New("refused by a condition")

	// ErrDenied is returned when the token lacks a permission. It stays until
	// someone changes the token or its policies; it is not a loss of
	// ownership.
	ErrDenied = errors.New("permission denied")

	// ErrUnreachable is returned when there was no answer, or none that can be
	// used: refused and cut connections, time-outs, 429, 500 and 503, bodies
	// that are not Consul's. None of these ends a lease by itself.
	ErrUnreachable = errors.New("consul is unreachable")

	// ErrNoAnswer is returned, along with ErrUnreachable, when nothing came back in time, not even
	// an error.
	ErrNoAnswer = errors.New("no answer in time")

	// ErrInvalid is returned when a request can never succeed as it is, and for
	// keys and values that do not parse.
	ErrInvalid = errors.New("invalid")

	// ErrNotFound is returned by [KV.Get] when the key does not exist (a key with an empty value
	// exists), and by [Store.ReportInstance] when the agent that answers does not know the check.
	// Other calls do not return it: [Store.Get] tells by a bool, and what is deleted,
	// deregistered or destroyed may be gone already.
	ErrNotFound = errors.New("no such key")

	// ErrNotSent is the outcome of the units of a batch that were never sent,
	// because something before them failed.
	ErrNotSent = errors.New("not sent: an earlier transaction of the batch failed")
)

// RefusedError tells which condition refused a transaction. It matches
// [ErrRefused].
type RefusedError struct {
	// Op is the index of the operation that refused. After [Store.Txn] it
	// counts the operations passed to it; in an [Outcome] it counts Unit.Ops
	// and is -1 when the refusal came from the guard, a shared condition or
	// another unit of the same transaction. -1 also when unknown.
	Op int
	// Key is the key of the operation that refused; empty when unknown.
	Key string
	// What is Consul's text. It differs between versions: for people only.
	What string
	// Guard is set by [Writer.Write] when the guard itself refused, or the writer's sequence key.
	Guard bool

	others []*RefusedError // that refused the same transaction, by Op
}

func (e *RefusedError) Error() string {
	where := "an unknown operation"
	switch {
	case e.Guard:
		where = "the guard"
	case e.Op >= 0:
		where = fmt.Sprintf("operation %d", e.Op)
	case e.Key != "":
		where = "another operation of the transaction"
	}
	if e.Key != "" {
		where += fmt.Sprintf(" (key %q)", e.Key)
	}
	return fmt.Sprintf("%v: %s: %s", ErrRefused, where, e.What)
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// LockDelayed reports whether a lock was refused because its key is still in
// the lock-delay of a former holder. Consul then shows the key without a
// session and wakes no watch when the delay ends: try again on a timer. The
// text is the only thing that tells this from a lock held by another.
func (e *RefusedError) LockDelayed() bool { return strings.Contains(e.What, "lock delay") }

// callError is every other error: one kind, what was tried, and why.
type callError struct {
	kind    error
	op      string // operation and key, for the beginning of the message
	text    string // what happened, and what to do about it
	cause   error  // nil when it would match a context error that is not the caller's
	ended   error  // the caller's ctx.Err(), when the caller's context ended
	unknown bool   // a write may have been applied or may be applied later
	address string // that was asked, where cause does not say it
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.op, e.kind, e.text)
}

func (e *callError) Unwrap() []error {
	errs := []error{e.kind}
	if e.ended != nil {
		errs = append(errs, e.ended)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}

// Invalid builds an [ErrInvalid] that begins with the operation.
func Invalid(op, format string, args ...any) error {
	return &callError{kind: ErrInvalid, op: op, text: fmt.Sprintf(format, args...)}
}

// unreachable builds an [ErrUnreachable] about an answer that cannot be used.
// The request did arrive, so a write may have been applied.
func unreachable(op, format string, args ...any) error {
	return &callError{kind: ErrUnreachable, op: op, text: fmt.Sprintf(format, args...),
		unknown: true}
}

// OutcomeUnknown reports whether a write that returned err may have been
// applied, or may still be applied later: a request that its sender gave up on
// can arrive minutes afterwards. It is false for nil, for every refusal
// (condition, permission, 429, invalid, session gone; a second copy of the request may fare
// better when the condition holds by then), for what was never sent
// and for a connection that could not be opened. It is true for all else, also
// for errors that are not of this package.
func OutcomeUnknown(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return e.unknown
	}
	for _, sure := range []error{ErrRefused, ErrNotSent, ErrNotFound, ErrDenied, ErrInvalid,
		ErrSessionGone} {
		if errors.Is(err, sure) {
			return false
		}
	}
	return true
}

// kindOf names the kind of err for logs and decisions; nil for foreign errors.
func kindOf(err error) error {
	for _, kind := range []error{ErrSessionGone, ErrRefused, ErrDenied, ErrUnreachable, ErrInvalid,
		ErrNotFound, ErrNotSent} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// contextError reports whether err matches one of the two context errors.
func contextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// ErrConflict is returned for a write that is based on another state than Consul has. Nothing of it
// was applied.
var ErrConflict = errors.New("conflict")

// ConflictError says which key was not as a write supposed. It matches [ErrConflict].
type ConflictError struct {
	What string // that the key is, for people: a config key, an item
	Key  string
	Want uint64 // the index that it should have had; 0: it should not have existed
	Have uint64 // the index that it has now; 0: it does not exist
	Why  string // more, for people; may be empty
}

func (e *ConflictError) Error() string {
	state := func(index uint64) string {
		if index == 0 {
			return "no key"
		}
		return fmt.Sprintf("index %d", index)
	}
	text := fmt.Sprintf(
		"%v: %s %q: the write is for %s, Consul has %s: read it and decide anew",
		ErrConflict, e.What, e.Key, state(e.Want), state(e.Have))
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return text
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
