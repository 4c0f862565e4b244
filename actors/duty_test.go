package actors_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/supervisor"
)

// A host's function for the leader's duty that fails is called again, and concerns nobody else.
func TestADutyThatFailsIsCalledAgainAndTheAssignerGoesOn(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("the duty failed") },
		"nil":   func() error { return nil },
		"panic": func() error { panic("in the duty") },
		// the host's functions are in the member's tree, and not in their own
		"escalate": func() error { return supervisor.Escalate(errors.New("no restart mends it")) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var calls atomic.Int64
				c.addWork(c.items(4)...)
				n1 := c.start("n1", func(cfg *actors.Config) {
					cfg.Lead = func(context.Context) error {
						calls.Add(1)
						return fail()
					}
				})
				c.await("n1 leads", 20*time.Second, func() bool {
					return n1.c.Leadership().Get().Role == facts.Leading
				})
				c.await("all at n1", 20*time.Second, c.balanced(4))
				term := n1.c.Leadership().Get().Term
				time.Sleep(10 * time.Minute)
				for path, r := range incarnations(n1.c.Report()) {
					if r.Incarnation > 1 && r.Name != "lead" {
						t.Errorf("%s is in incarnation %d: %v", path, r.Incarnation, r.LastCause)
					}
				}
				if now := n1.c.Leadership().Get().Term; now != term {
					t.Errorf("the term was %d and is %d", term, now)
				}
				if n := calls.Load(); n < 40 || n > 200 { // 10 s apart in the end, jitter aside
					t.Errorf("the duty was called %d times in 10 minutes", n)
				}
			})
		})
	}
}
