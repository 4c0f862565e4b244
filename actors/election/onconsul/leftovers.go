package onconsul

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/store"
)

// Leftovers are the keys of candidates whose Leave failed. A goroutine of its own removes them:
// there may be many, Consul may be slow, and the session must be renewed meanwhile.

// leftoverPause is how long a leftover waits at the most until it is tried again. With a long lease
// the next renewal is far.
const leftoverPause = 5 * time.Second

// later adds a leftover: do removes it, and runs when Consul answers again.
func (c *Conn) later(do func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftovers = append(c.leftovers, do)
}

// cleanUp wakes the goroutine that removes the leftovers.
func (c *Conn) cleanUp() {
	select {
	case c.leftoversDue <- struct{}{}:
	default:
	}
}

// clean removes leftovers whenever cleanUp asks for it, and every leftoverPause, until ctx ends.
func (c *Conn) clean(ctx context.Context) {
	again := time.NewTicker(leftoverPause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.leftoversDue:
		case <-again.C:
		}
		c.sweep(ctx)
	}
}

// sweep tries once to remove each leftover. One that Consul refuses does not hold up the others. It
// ends where there is no answer that can be used; as there may never be one for this leftover
// alone, the next sweep begins with those behind it.
func (c *Conn) sweep(ctx context.Context) {
	c.mu.Lock()
	left := c.leftovers
	c.leftovers = nil
	c.mu.Unlock()
	var failed, untried []func(context.Context) error
	for i, do := range left {
		err := contained.Call(c.log, "leave", func() error { return do(ctx) })
		if err != nil {
			failed = append(failed, do)
		}
		if errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil {
			untried = left[i+1:]
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftovers = slices.Concat(untried, c.leftovers, failed)
}

// settle removes the leftovers, or gives up after closePatience.
func (c *Conn) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for {
		c.sweep(ctx)
		c.mu.Lock()
		left := len(c.leftovers)
		c.mu.Unlock()
		if left == 0 || !store.Pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}
