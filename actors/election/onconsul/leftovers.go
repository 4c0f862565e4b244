package onconsul

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// What those who left could not remove is removed by a goroutine of its own: it may be much, Consul
// may be slow, and the session is to be renewed meanwhile.

// later has something removed as soon as Consul can be asked.
func (c *Conn) later(do func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftovers = append(c.leftovers, do)
}

// cleanUp has the leftovers removed now: Consul has just answered.
func (c *Conn) cleanUp() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// clean is the goroutine that removes them, until ctx ends.
func (c *Conn) clean(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.dirty:
			c.sweep(ctx)
		}
	}
}

// sweep removes what was left over, one try each. One that is refused or denied holds nobody else's
// up.
func (c *Conn) sweep(ctx context.Context) {
	c.mu.Lock()
	left := c.leftovers
	c.leftovers = nil
	c.mu.Unlock()
	var failed []func(context.Context) error
	for i, do := range left {
		err := do(ctx)
		if err != nil {
			failed = append(failed, do)
		}
		if errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil {
			failed = append(failed, left[i+1:]...)
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftovers = append(failed, c.leftovers...)
}

// settle tries to remove what is left over.
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
