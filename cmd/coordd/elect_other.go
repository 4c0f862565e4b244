//go:build !unix

package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/coordd/coordd/actors/election"
)

// commandRunner cannot run commands here: nothing would keep them from outliving their lease.
type commandRunner struct{}

func newCommandRunner(electFlags, electConn, string, string, *slog.Logger) (*commandRunner, error) {
	return nil,
		usage("commands can be run on Linux and other Unix systems only; --status, --follow and the orders work")
}

func (*commandRunner) runGuard(context.Context, *sync.WaitGroup)         {}
func (*commandRunner) runCommand(context.Context, election.Status) error { return nil }
func (*commandRunner) exited() (code int, done bool)                     { return 0, false }
