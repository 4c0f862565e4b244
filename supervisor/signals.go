package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is what a child of [Signals] ends the tree with: see [WithCause].
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "supervisor: signal: " + e.Signal.String() }

// Signals is a child that stops the whole tree, in order, when the process gets one of the signals,
// by default SIGINT and SIGTERM. It listens no longer then: a second signal does what it does by
// default, which is to end the process. So does one that comes while a group of OneForAll or
// RestForOne that the child is in is stopped to be started again: give it a place before or above
// such a group.
func Signals(signals ...os.Signal) Child {
	if len(signals) == 0 {
		signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return Child{Name: "signals", Gate: true, Run: func(ctx context.Context) error {
		c := make(chan os.Signal, 1)
		signal.Notify(c, signals...)
		defer signal.Stop(c)
		Ready(ctx)
		select {
		case s := <-c:
			return fmt.Errorf("%w: %w", &SignalError{s}, ErrTerminate)
		case <-ctx.Done():
			return nil
		}
	}}
}
