//go:build !unix

package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/coordd/coordd/actors/election"
)

// candidate cannot run commands here: nothing would keep them from outliving their lease.
type candidate struct{}

func newCandidate(electFlags, electConn, string, string, *slog.Logger) (*candidate, error) {
	return nil,
		usage("commands can be run on Linux and other Unix systems only; --status, --follow and the orders work")
}

func (*candidate) keep(context.Context, *sync.WaitGroup)       {}
func (*candidate) lead(context.Context, election.Status) error { return nil }
func (*candidate) exited() (code int, done bool)               { return 0, false }
