package configstore

import (
	"context"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// watcher holds the one long poll that keeps the cache coherent. It passes views to the cache
// updater.
//
// Consul sends the whole prefix at each change. So the watcher rests between two reads, longer for
// a larger prefix.
type watcher struct{ *shared }

// Load says how far reading the configuration has come.
type Load struct {
	Keys   int           // that Consul names; 0 before Consul was asked
	Loaded int           // that have been read; all at once, for it is one pass
	Bytes  int           // of their values
	Took   time.Duration // since the store was started or lost Consul
	Done   bool
}

func (a *watcher) run(ctx context.Context) error {
	w, crowd := a.store.WatchPrefix(a.keys.ConfigData()), store.Crowd{}
	began := time.Now()
	var whole bool          // the poll is a plain read
	var ownNow uint64       // what the cache had taken in when the poll began
	var readBegan time.Time // when a plain read began
	next := func(poll context.Context) (store.View, error) {
		whole = w.Anew()
		if !a.data.Get().Loaded() && !a.load.Get().Done {
			a.logKeyCount(poll)
		}
		ownNow, readBegan = a.data.Get().ownCount, time.Time{}
		if whole {
			readBegan = time.Now()
		}
		defer a.logProgress(began)()
		return w.Next(poll)
	}
	ownBefore, last := uint64(0), uint64(0)
	var wholeBegan time.Time // when the last plain read began; the cache may have missed its view
	for view := range w.Views(ctx, "config data", &a.polls, next) {
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		if whole {
			ownBefore, wholeBegan = ownNow, readBegan
			a.readTime.Store(int64(time.Since(readBegan)))
		}
		a.publish(view, ownBefore, wholeBegan, began)
		if view.Index < last && !whole {
			// Consul was restored: what was read may be older than what this store wrote
			a.polls.Renew()
		}
		last = view.Index
		store.Pause(ctx, crowd.Rest(view))
	}
	return nil
}

// logKeyCount asks for the names alone, which is quick, so that the log says how much is loaded.
func (a *watcher) logKeyCount(ctx context.Context) {
	names, err := a.store.ListKeys(ctx, a.keys.ConfigData(), "")
	if err != nil {
		return // the read after it reports the failure
	}
	a.load.Set(Load{Keys: len(names)})
	a.log.Info("config-loading", "keys", len(names))
}

// progressInterval is how often the log says that a first reading still goes on.
const progressInterval = 10 * time.Second

// logProgress logs that the first reading goes on, until off is called.
func (a *watcher) logProgress(began time.Time) (off func()) {
	if a.load.Get().Done {
		return func() {}
	}
	var t *time.Timer
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(progressInterval, func() {
		mu.Lock()
		defer mu.Unlock()
		if t == nil {
			return
		}
		a.log.Info("config-loading", "keys", a.load.Get().Keys, "for",
			time.Since(began).Round(time.Second).String())
		t.Reset(progressInterval)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		t.Stop()
		t = nil
	}
}

func (a *watcher) publish(view store.View, ownBefore uint64, readBegan, began time.Time) {
	s := watchedView{view: store.View{Index: view.Index}, ownBefore: ownBefore,
		readBegan: readBegan,
		serial:    a.watched.Get().serial + 1, entries: make([]*Entry, 0, len(view.Entries))}
	bytes := 0
	for _, e := range view.Entries {
		if entry, ok := fromStore(a.keys, e); ok {
			s.entries = append(s.entries, entry)
			bytes += len(e.Value)
		}
	}
	a.watched.Set(s)
	if !a.load.Get().Done {
		l := Load{Keys: len(s.entries), Loaded: len(s.entries), Bytes: bytes,
			Took: time.Since(began), Done: true}
		a.load.Set(l)
		a.log.Info("config-loaded", "keys", l.Keys, "bytes", l.Bytes, "took",
			l.Took.Round(time.Millisecond).String())
	}
}
