package actors

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// watcher is the actor behind every watch: it follows a key or a prefix and
// hands each view to publish. It holds one long poll and nothing else; what the
// view means is for those who read the state.
type watcher struct {
	*house
	what    string
	watch   func() *store.Watch
	publish func(store.View)
	// rest is the least time between two reads: a prefix is read whole at each
	// change, so a burst of changes in a large one must not mean a read for each.
	rest func(store.View) time.Duration
}

func (a *watcher) run(ctx context.Context) error {
	var w *store.Watch
	asked := -1 // how often there had been reason to ask anew when w began
	ladder, crowd := store.NewLadder(), crowding{}
	for {
		a.progress.polls(ctx)
		poll, n, done := a.fresh.poll(ctx)
		if n != asked {
			w, asked = a.watch(), n
		}
		view, err := w.Next(poll)
		ended := poll.Err() != nil
		done()
		if ctx.Err() != nil {
			return nil
		}
		if ended && err != nil {
			continue
		}
		if err != nil {
			wait := ladder.NextBackOff()
			a.store.Failed(a.what, err, wait)
			a.rests(ctx)
			if !store.Pause(ctx, wait) {
				return nil
			}
			continue
		}
		ladder.Reset()
		a.store.Succeeded(a.what)
		if err := a.took(ctx); err != nil {
			return err
		}
		a.publish(view)
		supervisor.Ready(ctx)
		wait := crowd.wait(time.Now())
		if a.rest != nil {
			wait = max(wait, a.rest(view))
		}
		if !store.Pause(ctx, wait) {
			return nil
		}
	}
}

// crowding makes a watch rest a little longer with each view that comes right upon the one before:
// by 10 ms each, up to 100 ms. A single change is seen at once, a burst of them together; and an
// index that leaps to and fro, as behind a broken proxy, is not followed at full speed.
type crowding struct {
	last time.Time
	n    int
}

func (c *crowding) wait(now time.Time) time.Duration {
	if now.Sub(c.last) > 250*time.Millisecond {
		c.n = 0
	}
	d := time.Duration(min(c.n, 10)) * 10 * time.Millisecond
	c.n, c.last = c.n+1, now
	return d
}

// bySize lets a watch of a growing prefix rest longer: 1 ms for each hundred keys, 1 s at the most.
func bySize(v store.View) time.Duration {
	return min(time.Duration(len(v.Entries)/100)*time.Millisecond, time.Second)
}
