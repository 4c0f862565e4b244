//go:build unix

package guard

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// In the package: it takes minutes of real time from outside.
func TestAGuardProcessThatDoesNotDoItsWorkIsKilled(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		hello, answers bool
		lease          time.Duration // of a command that runs; 0: none
		stop           time.Duration // when the owner stops; 0: never
		why            string
		least, most    time.Duration
	}{
		"it does not start":  {why: "has not started", least: stuckAfter, most: stuckAfter + time.Second},
		"it does not answer": {hello: true, why: "not answered", least: 10 * time.Second, most: 11 * time.Second},
		"it answers, and does not end": {hello: true, answers: true, stop: hour, why: "has not ended",
			least: hour + 13*time.Second, most: hour + 13*time.Second},
		"it does not start, and is to end": {stop: time.Second, why: "has not ended",
			least: 4 * time.Second, most: 4 * time.Second},
		// of a margin of 8 s, late 1.5 s before the end
		"its work is late": {hello: true, answers: true, lease: hour, why: "in time for the end of",
			least: hour - 1500*time.Millisecond, most: hour - 1300*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watch{g: New(Config{}), exited: make(chan struct{}),
					cmd: &exec.Cmd{Process: &os.Process{}}}
				w.l = newLink(nil, nil, func() { close(w.exited) })
				if c.hello {
					w.l.news <- event{Kind: evHello}
				}
				w.l.setLease(lease{Seq: 1})
				if c.lease > 0 {
					w.g.Lease("s", time.Now().Add(c.lease), 8*time.Second)
					w.l.start(Spec{}, time.Second, w.g.lease)
					w.l.take(event{Kind: evStarted, ID: 1, PID: 1})
				}
				var guard sync.WaitGroup
				defer guard.Wait()
				guard.Go(func() {
					for !w.gone() {
						for _, m := range w.l.controls.take() {
							if m.Kind == ctlLease && c.answers {
								w.l.take(event{Kind: evLease, ID: m.Lease.Seq})
							}
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
				ctx := t.Context()
				if c.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.stop)
					defer cancel()
				}
				begin := time.Now()
				err := w.until(ctx)
				if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), c.why) ||
					took < c.least || took > c.most {
					t.Errorf("%v after %v, want %q after %v to %v", err, took, c.why, c.least, c.most)
				}
			})
		})
	}
}

func (w *watch) gone() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}
