package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// guardMain is the hidden command that package guard starts this binary with.
func guardMain() int { return guard.Main(sayGoodbye) }

// newGuard returns a guard for the commands of this process. The second signal kills them all.
func newGuard(cfg guard.Config, passEnv []string, log *slog.Logger) (*guard.Guard, error) {
	if err := guard.CheckHost(); err != nil {
		return nil, err
	}
	cfg.Logger, cfg.HideEnv, cfg.Up = log, secrets(os.Environ(), passEnv), supervisor.Ready
	g := guard.New(cfg)
	// The time is for a process that cannot be killed just now.
	kill := func() { g.Kill(2 * time.Second) }
	atOnce.Store(&kill)
	return g, nil
}

// checkMargin refuses a margin that is less than the guard process will take: what is said of the
// member's times would not be so. 0 is the default.
func checkMargin(margin time.Duration) error {
	if margin > 0 && margin < guard.MinMargin {
		return usage("--lease-margin %v: commands take %v at least to end: give that or more",
			margin, guard.MinMargin)
	}
	return nil
}

// guardSlack is how much longer than its commands the guard process may take to stop.
const guardSlack = 10 * time.Second

// guardChild is the actor that keeps the guard process up, by run, which is guard.Run. Put it
// before all that runs commands, so that it is stopped when they have ended. Its gate opens when
// the guard process is ready: then it is known whether commands of a predecessor are left. It is
// not waited for longer than 3 s: what it gives up after 45 s would have to wait for its next Run.
func guardChild(run func(context.Context) error, stopTimeout time.Duration) supervisor.Child {
	return supervisor.Child{Name: "guard", Gate: true, StopTimeout: stopTimeout + guardSlack,
		Backoff: supervisor.Exponential(100*time.Millisecond, 2*time.Second),
		Run: func(ctx context.Context) error {
			return guardEnd(run(ctx))
		}}
}

// guardEnd is the end of a child by what guard.Run returned. Where no command can run any more this
// process gives up what it has: it would keep its items from everybody.
func guardEnd(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the guard process: %w", err)
	if errors.Is(err, guard.ErrStuck) {
		return supervisor.Escalate(err)
	}
	return err
}

// forwarder is the actor that calls forward with the newest value of a cell, now and after each
// change.
func forwarder[T any](name string, cell messages.Reader[T], forward func(T)) supervisor.Child {
	return supervisor.Child{Name: name, Run: func(ctx context.Context) error {
		for cursor := cell.Subscribe(); ; {
			value, err := cursor.Next(ctx)
			if err != nil {
				return nil
			}
			forward(value)
		}
	}}
}
