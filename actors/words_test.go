package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// words are errors by which a child of a supervisor asks something of the tree that it is in. The
// functions of a host are in the member's tree, and not in their own.
var words = map[string]error{
	"escalate": supervisor.Escalate(errors.New("no restart mends it")),
	"wrapped":  fmt.Errorf("in a tree of its own: %w", supervisor.Escalate(errors.New("x"))),
}

// One item whose work says such a word would else end one member after the other.
func TestWorkThatSpeaksToASupervisorEndsNoMember(t *testing.T) {
	for name, word := range words {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var calls atomic.Int64
				c.addWork(c.items(4)...)
				c.addWork("odd")
				m := c.start("n1")
				m2 := c.start("n2", func(cfg *actors.Config) {
					cfg.Work = func(ctx context.Context, item actors.Item) error {
						if item.ID == "odd" {
							calls.Add(1)
							return word
						}
						<-ctx.Done()
						return nil
					}
				})
				c.put("control/pins/odd", "n2")
				time.Sleep(10 * time.Minute)
				for _, m := range []*member{m, m2} {
					select {
					case <-m.done:
						t.Errorf("%s has ended: %v", m.id, m.err)
					default:
					}
				}
				if n := calls.Load(); n < 40 || n > 200 { // 10 s apart in the end, jitter aside
					t.Errorf("the work was called %d times in 10 minutes", n)
				}
			})
		})
	}
}

func TestADutyThatSpeaksToASupervisorIsCalledAgain(t *testing.T) {
	for name, word := range words {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				var calls atomic.Int64
				n1 := c.start("n1", func(cfg *actors.Config) {
					cfg.Lead = func(context.Context) error {
						calls.Add(1)
						return word
					}
				})
				c.await("n1 leads", 20*time.Second, func() bool {
					return n1.c.Leadership().Get().Role == messages.Leading
				})
				time.Sleep(10 * time.Minute)
				select {
				case <-n1.done:
					t.Errorf("n1 has ended: %v", n1.err)
				default:
				}
				if n := calls.Load(); n < 40 || n > 200 { // 10 s apart in the end, jitter aside
					t.Errorf("the duty was called %d times in 10 minutes", n)
				}
			})
		})
	}
}

// An operator mends the payload of an item whose work fails.
func TestWorkThatIsCalledAgainGetsThePayloadOfNow(t *testing.T) {
	run(t, func(c *cluster) {
		op := c.operator()
		must := func(payload string, weight uint64) {
			t.Helper()
			if err := op.AddWork(c.t.Context(), actors.WorkInput{ID: "w", Payload: []byte(payload),
				Weight: weight}); err != nil {
				t.Fatal(err)
			}
		}
		must("broken", 1)
		var last atomic.Value
		c.start("n1", func(cfg *actors.Config) {
			cfg.Work = func(ctx context.Context, item actors.Item) error {
				last.Store(fmt.Sprintf("%s %d", item.Payload, item.Weight))
				if string(item.Payload) == "broken" {
					return errors.New("the payload is broken")
				}
				<-ctx.Done()
				return nil
			}
		})
		c.await("a call", 10*time.Second, func() bool { return last.Load() != nil })
		time.Sleep(time.Minute)
		must("mended", 2)
		c.await("the payload of now", time.Minute, func() bool {
			return last.Load() == "mended 2"
		})
	})
}
