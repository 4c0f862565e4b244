package actors

import (
	"context"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// watcher is the actor behind every watch: it follows a key or a prefix and
// hands each view to publish. It holds one long poll and nothing else; what the
// view means is for those who read the state.
type watcher struct {
	*base
	what    string
	watch   func() *store.Watch
	publish func(store.View)
}

func (a *watcher) run(ctx context.Context) error {
	w, crowd := a.watch(), store.Crowd{}
	next := func(poll context.Context) (store.View, error) {
		a.progress.polls(ctx)
		view, err := w.Next(poll)
		if err != nil {
			a.rests(ctx)
		}
		return view, err
	}
	for view := range w.Views(ctx, a.what, a.polls, next) {
		if err := a.took(ctx); err != nil {
			return err
		}
		a.publish(view)
		supervisor.Ready(ctx)
		store.Pause(ctx, crowd.Rest(view))
	}
	return nil
}
