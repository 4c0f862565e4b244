//go:build !unix

package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

func guardMain() int {
	os.Stderr.WriteString("coordd guard: there is none on this system\n")
	return exitUsage
}

// commands cannot be run here: nothing would keep them from outliving their lease.
type commands struct{}

func newCommands(runFlags, time.Duration, *slog.Logger) (*commands, error) {
	return nil, usage("--exec: commands can be run on Linux and other Unix systems only")
}

// There are no guards here, and so nobody to be seen by.
func attend(string, string) (leave func(), err error) { return func() {}, nil }

func idleLiveness(string, string) func(actors.Process) actors.Liveness {
	return actors.Process.Liveness
}

func (*commands) follow(messages.Reader[messages.Session], messages.Reader[messages.Membership]) {}

func (*commands) work(context.Context, actors.Item) error   { return nil }
func (*commands) liveness(p actors.Process) actors.Liveness { return p.Liveness() }
func (*commands) lock() string                              { return "" }
func (*commands) children() []supervisor.Child              { return nil }
