package actor

import (
	"context"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/supervisor"
)

// Watcher is the actor behind every watch: it follows a key or a prefix and
// hands each view to publish. It holds one long poll and nothing else; what the
// view means is for those who read the state.
type Watcher struct {
	*Base
	what    string
	watch   func() *store.Watch
	publish func(store.View)
	// While is waited for before each poll: there is nothing to be seen before. Nil: nothing is.
	While func(context.Context) error
}

// NewKeyWatcher follows one key; what names it in the log.
func NewKeyWatcher(b *Base, what, key string, publish func(store.View)) *Watcher {
	return &Watcher{Base: b, what: what, publish: publish,
		watch: func() *store.Watch { return store.WatchKey(b.Store, key) }}
}

// NewPrefixWatcher follows all keys below a prefix.
func NewPrefixWatcher(b *Base, what, prefix string, publish func(store.View)) *Watcher {
	return &Watcher{Base: b, what: what, publish: publish,
		watch: func() *store.Watch { return store.WatchPrefix(b.Store, prefix) }}
}

// Run is the actor: see [supervisor.Child].
func (a *Watcher) Run(ctx context.Context) error {
	w, crowd := a.watch(), store.Crowd{}
	next := func(poll context.Context) (store.View, error) {
		if a.While != nil {
			a.Idle(ctx)
			if err := a.While(poll); err != nil {
				return store.View{}, err
			}
		}
		a.progress.polls(ctx)
		view, err := w.Next(poll)
		if err != nil {
			a.Idle(ctx)
		}
		return view, err
	}
	for view := range w.Views(ctx, a.what, a.Polls, next) {
		if err := a.Busy(ctx); err != nil {
			return err
		}
		a.publish(view)
		supervisor.Ready(ctx)
		store.Pause(ctx, crowd.Rest(view))
	}
	return nil
}
