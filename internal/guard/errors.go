//go:build unix

package guard

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrNoLease is wrapped by what Exec returns when a command was not started because no lease is
	// held, or because the one held is within its margin of its end. Call Lease at each renewal.
	ErrNoLease = errors.New("no lease is held, or it is about to end")

	// ErrLost is wrapped by what Exec returns when the guard process died under the command, and by
	// what Run returns then. The command has been killed and seen to be gone.
	ErrLost = errors.New("the guard process died")

	// ErrStuck is wrapped by what Run returns when it cannot go on: what a dead guard process left
	// has not died for 45 s, or a command has waited for 45 s for a guard process that works. In
	// the first case running Execs do not return. End this process.
	ErrStuck = errors.New("no command can run here any more")

	// ErrNotUp is wrapped by what Exec returns when a command was not started because no guard
	// process is up, and Spec.NoWait says that it is not to wait for one.
	ErrNotUp = errors.New("no guard process is up")

	// ErrRunning is wrapped by what Exec returns when a command of that name is still running.
	// Nothing was started.
	ErrRunning = errors.New("a command of this name is still running")
)

// Reason tells why a command ended.
type Reason string

// The reasons.
const (
	Ended   Reason = "ended"   // by itself
	Stopped Reason = "stopped" // asked to: the context of its Exec, or of Run, ended
	// stopped by the guard process because the lease was about to end or was given up
	LeaseEnded Reason = "lease-ended"
	NotStarted Reason = "not-started" // never ran; Err says why
	Lost       Reason = "guard-lost"  // killed because the guard process died
)

// ExitError is how a command ended when that was not with exit code 0.
type ExitError struct {
	Name string // as in Spec
	// exit code; -1 when a signal ended it, when it did not start, or when it is not known
	Code   int
	Signal syscall.Signal // the signal that ended it, else 0
	Reason Reason         // why it ended
	Err    error          // the cause, for NotStarted and Lost; else nil
}

// Error says how the command ended, in words for a log.
func (e *ExitError) Error() string {
	var how string
	switch {
	case e.Err != nil:
		return fmt.Sprintf("guard: command %q: %s: %v", e.Name, e.Reason, e.Err)
	case e.Signal != 0:
		how = fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	case e.Code == 126:
		how = "exit code 126: found but cannot be executed; check its permissions"
	case e.Code == 127:
		how = "exit code 127: command not found; check its path"
	default:
		how = fmt.Sprintf("exit code %d", e.Code)
	}
	return fmt.Sprintf("guard: command %q: %s: %s", e.Name, e.Reason, how)
}

// Interrupted tells whether the command was ended, or not started, for the sake of something else
// than itself and its caller: its guard process died, or there was none, or no lease. A member does
// not take that for a failure of its work.
func (e *ExitError) Interrupted() bool {
	return e.Reason == Lost || e.Reason == LeaseEnded || errors.Is(e.Err, ErrNoLease) ||
		errors.Is(e.Err, ErrNotUp)
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }
