package configstore

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// watcher holds the one long poll that makes the cache.
//
// Consul sends the whole prefix at each change. So the watcher rests between two reads, longer for
// a larger prefix.
type watcher struct{ *shared }

func (a *watcher) run(ctx context.Context) error {
	w, crowd, began := store.WatchPrefix(a.store, a.keys.ConfigData()), store.Crowd{}, time.Now()
	for view := range w.Views(ctx, "config data", &a.polls, w.Next) {
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		first := !a.data.Get().loaded
		a.data.Set(a.data.Get().next(a.keys, view))
		if first {
			a.log.Info("config-loaded", "keys", a.data.Get().Len(), "took",
				time.Since(began).Round(time.Millisecond).String())
		}
		store.Pause(ctx, crowd.Rest(view))
	}
	return nil
}
