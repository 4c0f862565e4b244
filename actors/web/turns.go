package web

import (
	"context"
	"io"
	"runtime"
)

// turns are for work that takes a processor for long: whoever renews the session waits behind every
// goroutine that could run, and these wait for each other instead. Nobody's turn lasts while a
// client is waited for.
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

// between is a writer for whoever has a turn: it is another's while what is written is sent.
type between struct {
	io.Writer
	turns turns
}

func (b between) Write(p []byte) (int, error) {
	b.turns.give()
	defer func() { b.turns <- struct{}{} }()
	return b.Writer.Write(p)
}
