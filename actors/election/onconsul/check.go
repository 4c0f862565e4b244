package onconsul

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/coordd/coordd/actors/election/internal/contained"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// keepCheck makes what keeps this process registered as an instance of the service, with a check
// that its sessions end with. It does so from when the first session is wanted.
func (c *Conn) keepCheck() {
	checkTTL := max(0, c.cfg.CheckTTL)
	c.keeper = &store.CheckKeeper{
		Store: c.store, TTL: c.cfg.TTL, Log: c.log, Out: c.check,
		Says: c.says,
		Instance: messages.NewState(store.Instance{
			ID:      store.InstanceID(c.cfg.Service, c.cfg.Name, rand.Text()[:12]),
			Service: c.cfg.Service, CheckTTL: checkTTL,
			Meta: map[string]string{"coordd-session": store.FitMeta(c.cfg.Name)},
		}).Reader(),
	}
	c.binding = &store.Binding{Store: c.store, CheckTTL: checkTTL, TTL: c.cfg.TTL,
		Check: c.check.Reader(), Log: c.log}
}

// report keeps the instance until ctx ends.
func (c *Conn) report(ctx context.Context) {
	if c.cfg.CheckTTL == NoCheck {
		return
	}
	for again := true; again; again = store.Pause(ctx, time.Second) {
		_ = contained.Call(c.log, "the loop that reports to the check", func() error {
			return c.keeper.Run(ctx)
		})
	}
}

// deregister is the last step of a close.
func (c *Conn) deregister() {
	call, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = contained.Call(c.log, "the end of the instance", func() error {
		c.keeper.Deregister(call)
		return nil
	})
}

// says is what is shown beside the check.
func (c *Conn) says() string {
	c.mu.Lock()
	of := c.watching
	c.mu.Unlock()
	return fmt.Sprintf("it leads %d of %d elections; the lease has %v left", c.crew.Leading(), of,
		max(0, c.session.Get().Lease.Left(time.Now())).Round(time.Second))
}
