package onconsul_test

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/internal/play"
)

// leadByHand does the duty as the messages say, without a Lead function: until the end of the lease
// that it was told of. When it is asked to stop, or its connection is closed, it takes its time.
func (p *contest) leadByHand(c *candidate, statuses <-chan election.Status) {
	var led election.Status // the last message that let it work
	work := func() {
		if time.Now().Before(led.Until) {
			p.Judge.Work(play.Contested, led.Self.ID, led.Token)
		}
	}
	for {
		var tick <-chan time.Time
		if led.Role == election.Leading {
			tick = time.After(500 * time.Millisecond)
		}
		select {
		case <-tick:
			work()
		case s, open := <-statuses:
			switch {
			case !open:
				return
			case s.Role == election.Leading:
				led = s
				work()
			case s.Role == election.Draining || errors.Is(s.Err, election.ErrClosed):
				if led.Role == election.Leading {
					work()
					drain, cancel := context.WithTimeout(context.Background(),
						play.DrainsWithin*c.Slow/1000)
					if _, err := c.Election.State().Wait(drain, func(now election.Status) bool {
						return now.Role != s.Role
					}); err != nil {
						work()
					}
					cancel()
				}
				led.Role = s.Role
				c.Election.Drained()
			default:
				led.Role = s.Role
			}
		}
	}
}
