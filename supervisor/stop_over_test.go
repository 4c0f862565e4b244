package supervisor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/supervisor"
)

// The child may end at any moment of the answer, which so is one of two.
func TestWhoStopsAChildAndWaitsNoLongerIsToldThatItHasEndedOrNotAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := startGroup(t, supervisor.Tree{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 200 {
			mustStart(t, g, newActor(new(journal), "b").child())
			err := g.Stop(ctx, "b")
			var stuck *supervisor.StuckError
			if err != nil && !errors.As(err, &stuck) {
				t.Fatalf("got %v", err)
			}
			synctest.Wait()
		}
		r.mustEnd(t)
	})
}
