// Package contained calls what may panic in goroutines that no supervisor watches, where a panic
// would end the process.
package contained

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/supervisor"
)

// ErrBroken is what a panic, and an end of the goroutine, become.
var ErrBroken = errors.New("its code has failed")

// Run calls f, and then done with what f returned. A panic of f is logged with its stack and
// becomes [ErrBroken]. So does an end of the goroutine (runtime.Goexit): done is called then, and
// Run does not return. what names f.
func Run(log *slog.Logger, what string, f func() error, done func(error)) {
	err := fmt.Errorf("%w: %s ended its goroutine (runtime.Goexit)", ErrBroken, what)
	defer func() { done(err) }()
	returned := supervisor.Protect(f)
	// its own, and not one that it returns wrapped
	if p, ok := returned.(*supervisor.PanicError); ok { //nolint:errorlint
		log.Error("election-panicked", "what", what, "err", p, "stack", string(p.Stack))
		returned = fmt.Errorf("%w: %s: %w", ErrBroken, what, p)
	}
	err = returned
}

// Call is Run where only the outcome matters.
func Call(log *slog.Logger, what string, f func() error) (err error) {
	Run(log, what, f, func(e error) { err = e })
	return err
}

// Go is Run in a goroutine of its own, for what nobody waits for.
func Go(log *slog.Logger, what string, f func() error, done func(error)) {
	go Run(log, what, f, done)
}
