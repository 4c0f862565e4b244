package web

import (
	"context"
	"runtime"
)

// turns are for work that takes a processor for long. The renewal of the session would wait behind
// each goroutine that could run: these wait for each other instead.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// take waits for a turn; the error is ctx's. One that is free is taken also when ctx has ended.
func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turns) give() { <-t }
