package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/guard"
	"github.com/coordd/coordd/supervisor"
)

// docs/guarantees.md gives the time. The pauses between two tries are drawn.
func TestAGuardThatCannotBeStartedIsGivenUpWithin48Seconds(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			g := guard.New(guard.Config{Argv: []string{"/no/such/program"}})
			g.Lease("s", time.Now().Add(time.Hour), time.Second)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- g.Exec(ctx, guard.Spec{Name: "w", Command: "true"}) }()
			synctest.Wait()
			began := time.Now()
			tree, err := supervisor.New("x", supervisor.Tree{MaxRestarts: -1,
				Children: []supervisor.Child{guardChild(g.Run, time.Second)}})
			must(t, err)
			err = tree.Run(ctx)
			took := time.Since(began)
			if !errors.Is(err, guard.ErrStuck) || took < 45*time.Second || took > 48*time.Second {
				t.Errorf("%v after %v", err, took)
			}
			cancel()
			<-ended
		})
	}
}
