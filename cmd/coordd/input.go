package main

import (
	"context"
	"errors"
)

// errInterrupted is what a command ends with that was waiting for its input when it was told to
// stop.
var errInterrupted = errors.New("stopped by a signal while it was waiting for its input")

// reading runs what opens and reads files, or standard input: nobody may ever write to those. When
// ctx ends, it goes on without anybody who waits for it, and the process's end is its own.
func reading[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := read()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}
