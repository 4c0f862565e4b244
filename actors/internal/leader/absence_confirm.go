package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// asking is how many members are asked about at one time. To confirm that one is gone takes two
// requests, and its grace begins with their answers: asked about one by one on a Consul that takes
// 200 ms, the last of 30 members would wait 12 s longer than the first. And what 30 members had
// given up at once was read for 24 s on one that takes 800 ms, before anything else was planned.
const asking = 8

// confirmed is what [Assigner.confirm] has found out about one member.
type confirmed struct {
	member string
	since  time.Time
	index  uint64 // of the ack; 0: there is none
	ack    protocol.Ack
	// sentinel is the index of the sentinel, if a registration wrote that, and lease what it names.
	// 0: not known.
	sentinel uint64
	lease    time.Duration
	err      error
}

// confirmAll confirms each of the members, several at one time.
func (a *Assigner) confirmAll(ctx context.Context, members []string) []confirmed {
	all := make([]confirmed, len(members))
	for i, id := range members {
		all[i] = confirmed{member: id, err: unanswered("confirming that " + id + " is gone")}
	}
	together(len(all), func(i int) {
		all[i] = a.confirm(ctx, members[i])
	})
	return all
}

// unanswered is what stands of a request if the transport ends its goroutine: nothing was found
// out.
func unanswered(what string) error {
	return fmt.Errorf("%s: %w: the transport ended its goroutine", what, store.ErrUnreachable)
}

// together calls ask for each of 0 to n-1, several at one time. No goroutine of it is left when it
// returns.
func together(n int, ask func(i int)) {
	if n == 1 {
		ask(0)
		return
	}
	var running sync.WaitGroup
	free, broke := make(chan struct{}, asking), make(chan any, n)
	for i := range n {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			defer func() {
				if p := recover(); p != nil {
					broke <- p
				}
			}()
			ask(i)
		})
	}
	running.Wait()
	select {
	case p := <-broke:
		panic(p) // in the assigner's goroutine, where its supervisor can catch it
	default:
	}
}
