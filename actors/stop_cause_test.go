package actors_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
)

// noted are the causes with which contexts have ended.
type noted struct {
	mu     sync.Mutex
	causes []error
}

func (n *noted) end(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.causes = append(n.causes, context.Cause(ctx))
}

func (n *noted) first() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.causes) == 0 {
		return nil
	}
	return n.causes[0]
}

// The context of a host's function says why it has ended.
func TestAContextSaysWhyItHasEnded(t *testing.T) {
	type world struct {
		*cluster
		op *operator.Client
		n1 *member
	}
	cut := func(w world) { w.n1.net.Cut(errors.New("connection refused")) }
	loseSession := func(w world) {
		_, err := w.consul.Client().Session().Destroy(w.n1.c.Session().Get().ID, nil)
		w.must(err)
	}
	stop := func(w world) { w.stop("n1") }
	for name, c := range map[string]struct {
		duty bool // of the leader, and not of an item
		do   func(w world)
		want actors.StopCause
	}{
		"pinned elsewhere": {false, func(w world) {
			w.start("n2")
			w.must(w.op.Pin(w.t.Context(), "a", "n2"))
		}, actors.StopMoved},
		"its key is deleted": {false, func(w world) { w.delete("assignments/n1/a") },
			actors.StopMoved},
		"removed": {false, func(w world) { w.removeWork("a") }, actors.StopRemoved},
		"drained": {false, func(w world) {
			w.start("n2")
			w.must(w.op.Drain(w.t.Context(), "n1"))
		}, actors.StopDrained},
		"fails": {false, func(world) {}, actors.StopFailing},
		"restarted": {false, func(w world) { w.must(w.op.Restart(w.t.Context(), "a")) },
			actors.StopRestarted},
		"changed": {false, func(w world) {
			w.must(w.op.AddWork(w.t.Context(), operator.WorkInput{ID: "a", Payload: []byte("new")}))
		}, actors.StopChanged},
		"cut off":              {false, cut, actors.StopLeaseOver},
		"its session is ended": {false, loseSession, actors.StopSessionLost},
		"stopped":              {false, stop, actors.StopShutdown},
		"leads and is cut off": {true, cut, actors.StopLeaseOver},
		"leads and loses it":   {true, func(w world) { w.delete("leader") }, actors.StopDeposed},
		"leads and is stopped": {true, stop, actors.StopShutdown},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c2 *cluster) {
				w := world{cluster: c2, op: c2.operator()}
				var work, duty noted
				w.addWork("a")
				calls := 0
				w.n1 = w.start("n1", func(cfg *actors.Config) {
					cfg.OnChange = actors.RestartOnChange
					if name == "fails" {
						cfg.MaxRestarts, cfg.Merge = 1, 5*time.Second // it runs anew before it is taken away
					}
					run, lead := cfg.Work, cfg.Lead
					cfg.Work = func(ctx context.Context, item actors.Item) error {
						if calls++; name == "fails" && calls < 3 {
							return errors.New("it cannot run")
						}
						defer work.end(ctx)
						return run(ctx, item)
					}
					cfg.Lead = func(ctx context.Context) error {
						defer duty.end(ctx)
						return lead(ctx)
					}
				})
				w.await("the work runs", 30*time.Second, func() bool { return w.startsOf("a") > 0 })
				c.do(w)
				of := &work
				if c.duty {
					of = &duty
				}
				w.await("a context has ended", time.Minute, func() bool { return of.first() != nil })
				if err := of.first(); !errors.Is(err, c.want) {
					t.Errorf("the cause is %v, want %v", err, c.want)
				}
				if err := of.first(); c.want == actors.StopShutdown && !errors.Is(err, context.Canceled) {
					t.Errorf("%v hides the cause of the host's context", err)
				}
			})
		})
	}
}
