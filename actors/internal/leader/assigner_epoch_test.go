package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
)

// The lease was over when the tracker looked, and a renewal has brought it back before the tracker
// said so: then the term goes on, and its assigner does as well.
func TestATermThatGoesOnHasAnAssigner(t *testing.T) {
	for name, role := range map[string]messages.Role{"goes on": messages.Leading,
		"is over": messages.Uncertain} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := messages.Leadership{Role: messages.Leading, Term: 1, Epoch: 7}
				v := newCells()
				v.leadership.Set(now)
				bump := messages.NewMailbox[messages.Bump, messages.Leadership]()
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
							} else if role != messages.Leading {
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
				if role != messages.Leading {
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
