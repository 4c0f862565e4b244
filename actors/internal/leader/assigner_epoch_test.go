package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The lease was over when the tracker looked, and a renewal has brought it back before the tracker
// said so: then the term goes on, and its assigner does as well.
func TestATermThatGoesOnHasAnAssigner(t *testing.T) {
	for name, role := range map[string]facts.Role{"goes on": facts.Leading,
		"is over": facts.Uncertain} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := facts.Leadership{Role: facts.Leading, Term: 1, Epoch: 7}
				v := newCells()
				v.leadership.Set(now)
				bump := messages.NewMailbox[facts.Bump, facts.Leadership]()
				a := v.assigner(t, actor.Settings{}, bump)
				a.ladder = store.NewLadder()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { // the tracker
					inbox := bump.Open()
					defer inbox.Close()
					for n := 0; ; n++ {
						select {
						case r := <-inbox.Requests():
							if n == 0 {
								r.Reply(now, actor.ErrNotLeading)
								now.Role, now.Epoch = role, 8
								v.leadership.Set(now)
							} else if role != facts.Leading {
								r.Reply(now, actor.ErrNotLeading)
							} else {
								r.Reply(now, nil)
							}
						case <-ctx.Done():
							return
						}
					}
				}()
				want := error(nil)
				if role != facts.Leading {
					want = errTermOver
				}
				if err := a.newEpoch(ctx); err != want || want == nil && a.epoch.Epoch != 8 {
					t.Errorf("the epoch is %d: %v", a.epoch.Epoch, err)
				}
				cancel()
			})
		})
	}
}
