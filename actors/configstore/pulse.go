package configstore

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// pulse finds out whether the cache is up to date: it asks Consul for the prefix's index and
// nothing else. A poll of the watch that ends without a change brings all values again, so the
// watch polls seldom. A watch that stays behind sits on a dead connection, and pulse has it read
// anew.
type pulse struct{ *shared }

// behind is how long the watch may stay behind the pulse: a reading that takes longer is broken off.
const behind = 30 * time.Second

func (a *pulse) run(ctx context.Context) error {
	if _, err := a.data.Reader().Wait(ctx, Snapshot.Loaded); err != nil {
		return nil
	}
	var sent time.Time
	ask := func(ctx context.Context) (uint64, error) {
		sent = time.Now()
		_, index, err := a.store.ListKeys(ctx, a.keys.ConfigData(), "/")
		return index, err
	}
	pause := func(_ error, wait time.Duration) time.Duration { return min(wait, a.MaxAge/4) }
	for index := range store.Repeat(ctx, a.store, "config pulse", pause, ask) {
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		if a.matches(ctx, sent, index) {
			a.confirmedAt.Set(sent)
			store.Pause(ctx, a.MaxAge/4)
		} else {
			a.polls.Renew()
			store.Pause(ctx, a.MaxAge/40) // the cache may have been ahead by a write
		}
	}
	return nil
}

// matches tells whether the cache shows what Consul has, or soon does. An index that went back
// means that Consul was restored, unless the cache is ahead of the pulse: both are read anew. The
// watch would wait for an index that may never come. An answer without an index (1) says nothing if
// it was asked for after a write.
func (a *pulse) matches(ctx context.Context, sent time.Time, index uint64) bool {
	w := a.written.Get()
	if a.data.Get().index > index || index <= 1 && w.index > 1 && sent.After(w.at) {
		return false
	}
	own, cancel := context.WithTimeout(ctx, behind)
	defer cancel()
	_, err := a.data.Reader().Wait(own, func(s Snapshot) bool { return s.index >= index })
	return err == nil
}
