package backend

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/contained"
)

// Crew is the participants of one connection: who leads, and who has yet to leave.
type Crew struct {
	log  *slog.Logger
	ctx  context.Context // of what is tried again
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	leading map[*Participant]bool
	pending int // leaves that are tried again
}

// NewCrew returns the crew of a connection. Stop ends it.
func NewCrew(log *slog.Logger) *Crew {
	c := &Crew{log: log, leading: map[*Participant]bool{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *Crew) leads(p *Participant, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.leading, p); yes {
		c.leading[p] = true
	}
}

// Leading counts those that lead: they have not given that up, nor seen that it is gone.
func (c *Crew) Leading() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leading)
}

// Lost forgets the leaders of a session that has ended.
func (c *Crew) Lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.leading)
}

const (
	// leaveAgain is the pause between two attempts to leave.
	leaveAgain = 2 * time.Second
	// deniedAgain is the pause before something is tried again that is denied.
	deniedAgain = 30 * time.Second
)

// later has a participant leave that could not: beside, again and again.
func (c *Crew) later(p *Participant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.pending++
	c.work.Go(func() {
		defer func() {
			c.mu.Lock()
			c.pending--
			c.mu.Unlock()
		}()
		wait := leaveAgain / 20
		for pause(c.ctx, wait) {
			err := contained.Call(c.log, "leave", func() error {
				soon, cancel := context.WithTimeout(c.ctx, leavePatience)
				defer cancel()
				return p.leave(soon)
			})
			if err == nil {
				return
			}
			if wait = min(2*wait, leaveAgain); errors.Is(err, election.ErrDenied) {
				wait = deniedAgain
			}
		}
	})
}

// Settle waits until nobody leads and nobody has yet to leave, or ctx ends.
func (c *Crew) Settle(ctx context.Context) {
	for pause(ctx, 0) {
		c.mu.Lock()
		left := c.pending + len(c.leading)
		c.mu.Unlock()
		if left == 0 || !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// Stop ends all that is tried again, and waits for it.
func (c *Crew) Stop() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.work.Wait()
}
