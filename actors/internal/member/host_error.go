package member

import (
	"errors"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/supervisor"
)

// hostError is what a function of the host has returned. The supervisor that runs the function is
// the member's. It does not hear a [supervisor.Escalate] of the host, because hostError has no
// Unwrap: one item whose work escalates would else end its member, and then the next one.
type hostError struct{ err error }

// hostsOwn hides from the supervisor what a host's error says to it.
func hostsOwn(err error) error {
	if err == nil {
		return nil
	}
	return &hostError{supervisor.Protect(func() error { return err })}
}

func (e *hostError) Error() string { return e.err.Error() }

func (e *hostError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *hostError) As(target any) bool   { return errors.As(e.err, target) }

// interrupted tells whether work says that it was ended by something else than itself, as a command
// is whose guard process died. What ends all work of a host is no failure of any item.
func interrupted(err error) bool {
	_, ok := errors.AsType[*actor.InterruptedError](err)
	return ok
}
