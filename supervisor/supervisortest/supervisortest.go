// Package supervisortest runs supervisors in tests and asserts that nothing of
// them is left behind. It works inside and outside of testing/synctest bubbles.
package supervisortest

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/coordd/coordd/supervisor"
)

// Start runs the tree until the test ends. Then it stops it and fails the test
// unless that was clean: when the tree had escalated, with the whole history; when
// children did not stop, with their paths and stacks. Logs are discarded
// unless opts say otherwise.
func Start(t testing.TB, name string, tree supervisor.Tree,
	opts ...supervisor.Option) *supervisor.Supervisor {
	t.Helper()
	quiet := supervisor.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	s, err := supervisor.New(name, tree, append([]supervisor.Option{quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	// Not t.Context: that ends before the cleanups that were registered later than
	// this one, which may still need the tree.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		CleanEnd(t, <-done)
	})
	return s
}

// CleanEnd asserts that what Run returned is the end of a clean stop, which is nil.
func CleanEnd(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("the supervisor did not end cleanly: %v", err)
	}
}
