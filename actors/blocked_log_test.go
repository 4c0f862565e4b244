package actors_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
)

// A host's log that nobody reads: its handler takes nothing while it is shut, and waits.
type unread struct {
	slog.Handler
	valve *valve
}

type valve struct {
	mu   sync.Mutex
	gate chan struct{} // nil: open
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gate = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gate != nil {
		close(v.gate)
		v.gate = nil
	}
}

func (v *valve) pass() {
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (u unread) Handle(ctx context.Context, r slog.Record) error {
	u.valve.pass()
	return u.Handler.Handle(ctx, r)
}
func (u unread) WithAttrs(a []slog.Attr) slog.Handler {
	return unread{u.Handler.WithAttrs(a), u.valve}
}
func (u unread) WithGroup(n string) slog.Handler {
	return unread{u.Handler.WithGroup(n), u.valve}
}

func (c *cluster) unreadLog(v *valve) option {
	return func(cfg *actors.Config) { cfg.Logger = slog.New(unread{c.log.Handler(), v}) }
}

func TestALeaderWhoseLogNobodyReadsTakesOverFromADeadMemberAndStops(t *testing.T) {
	run(t, func(c *cluster) {
		v := &valve{}
		defer v.open()
		c.addWork(c.items(6)...)
		n1 := c.start("n1", c.unreadLog(v))
		c.await("n1 leads", 20*time.Second, func() bool { return c.leader() == "n1" })
		c.start("n2")
		c.start("n3")
		c.await("shared out", 20*time.Second, c.balanced(6))
		v.shut()
		c.addWork("more-1", "more-2", "more-3") // of which there is something to be logged
		time.Sleep(10 * time.Second)
		c.kill("n3")
		c.await("n3's items at the others", n1.c.Settings().Bounds().TakeOver.Total(), func() bool {
			return sum(c.loads()) == 9
		})
		begin := time.Now()
		c.stop("n1")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		c.await("all at n2", 20*time.Second, func() bool { return c.loads()["n2"] == 9 })
	})
}

func TestWorkStopsWithItsLeaseAlthoughNobodyReadsTheLog(t *testing.T) {
	run(t, func(c *cluster) {
		v := &valve{}
		defer v.open()
		c.addWork(c.items(6)...)
		c.start("n2")
		c.await("n2 leads", 20*time.Second, func() bool { return c.leader() == "n2" })
		n1 := c.start("n1", c.unreadLog(v))
		c.await("shared out", 20*time.Second, c.balanced(6))
		v.shut()
		c.addWork("more-1", "more-2")
		time.Sleep(10 * time.Second)
		n1.net.Cut(errors.New("cut off"))
		lease := n1.c.Session().Get().Lease
		time.Sleep(time.Until(lease.Start.Add(lease.TTL)))
		if n := c.loads()["n1"]; n != 0 {
			t.Errorf("n1 works on %d items at the end of its lease", n)
		}
		c.await("all at n2", 40*time.Second, func() bool { return c.loads()["n2"] == 8 })
		n1.net.Cut(nil)
		v.open()
		c.await("in order in the end", 40*time.Second, c.balanced(8))
	})
}
