package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// confirming is how many members are asked about at one time. Each takes three requests, and its
// grace begins with their answers: asked about one by one on a Consul that takes 200 ms, the last
// of 30 members waited 18 s longer than the first.
const confirming = 8

// confirmed is what [Assigner.confirm] has found out about one member.
type confirmed struct {
	member string
	since  time.Time
	index  uint64
	ack    protocol.Ack
	err    error
}

// confirmAll confirms each of the members, several at one time. No goroutine of it is left when it
// returns.
func (a *Assigner) confirmAll(ctx context.Context, members []string) []confirmed {
	all := make([]confirmed, len(members))
	one := func(i int) {
		c := &all[i]
		c.since, c.index, c.ack, c.err = a.confirm(ctx, c.member)
	}
	for i, id := range members {
		// What stands if the transport ends the goroutine: nothing was found out.
		all[i] = confirmed{member: id,
			err: fmt.Errorf("confirming that %s is gone: %w: the transport ended its goroutine", id,
				store.ErrUnreachable)}
	}
	if len(members) == 1 {
		one(0)
		return all
	}
	var running sync.WaitGroup
	free, broke := make(chan struct{}, confirming), make(chan any, len(members))
	for i := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			defer func() {
				if p := recover(); p != nil {
					broke <- p
				}
			}()
			one(i)
		})
	}
	running.Wait()
	select {
	case p := <-broke:
		panic(p) // in the assigner's goroutine, where its supervisor can catch it
	default:
	}
	return all
}
