package web

import (
	"context"
	"fmt"
	"runtime"
)

// turns are places for requests that cost much: a processor for long, a connection to Consul, a
// large document. The renewal of the session would wait behind all of them: these wait for each
// other instead, or are refused.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// try takes a turn if one is free.
func (t turns) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for a turn, until ctx ends. One that is free is taken also when ctx has ended.
func (t turns) take(ctx context.Context) error {
	if t.try() {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("many others ask: ask again soon: %w", ctx.Err())
	}
}

func (t turns) give() { <-t }
