package actors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// Consul takes such a name in a transaction, and refuses to be asked for it by its path.
func TestAnItemWhoseNameDoesNotPrintIsRunMovedAndRemoved(t *testing.T) {
	run(t, func(c *cluster) {
		const odd = "dev\u00a01"
		ctx, op := c.t.Context(), c.operator()
		c.must(op.AddWork(ctx, actors.WorkInput{ID: odd}))
		c.start("n1")
		c.start("n2")
		c.await("it runs", 20*time.Second, c.balanced(1))
		was, err := op.Locate(ctx, odd)
		c.must(err)
		to := map[string]string{"n1": "n2", "n2": "n1"}[was.Member]
		c.must(op.Pin(ctx, odd, to))
		c.await("it has moved", 20*time.Second, func() bool {
			owns, err := op.Owns(ctx, to, odd)
			c.must(err)
			return owns && c.startsOf(odd) == 2
		})
		_, err = op.Explain(ctx, odd)
		c.must(err)
		c.must(op.Restart(ctx, odd))
		c.await("it has been started again", 20*time.Second, func() bool {
			return c.startsOf(odd) == 3
		})
		c.must(op.RemoveWork(ctx, odd))
		c.await("it is gone", 20*time.Second, c.balanced(0))
		if _, err := op.Locate(ctx, odd); !errors.Is(err, actors.ErrUnknownItem) {
			c.t.Errorf("after its end: %v", err)
		}
	})
}
