package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// A process that did not run hangs in nothing: what an actor is at counts from when it runs again.
func TestNoActorHangsForTheTimeThatItsProcessStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := protocol.New("demo", store.Config{Client: new(api.Client)})
		if err != nil {
			t.Fatal(err)
		}
		b := NewBase(Settings{}, s, nil)
		b.progress.rounds["a"] = round{since: time.Now()}
		for _, step := range []struct{ suspended, runs, hangs time.Duration }{
			{0, 30 * time.Second, 0}, {2 * time.Minute, 0, 0}, {0, StuckAfter - time.Second, 0},
			{0, time.Second, StuckAfter},
		} {
			time.Sleep(step.suspended)
			for range step.runs / time.Second {
				s.Tick(true)
				time.Sleep(time.Second)
			}
			took := time.Duration(0)
			if who, since := b.Stuck(time.Now()); who != "" {
				took = time.Since(since)
			}
			if took != step.hangs {
				t.Errorf("%+v: it hangs for %v", step, took)
			}
		}
	})
}
