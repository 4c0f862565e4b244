package configstore

import (
	"context"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// pulse tells whether the cache is up to date: it asks for the index that the prefix has, and for
// nothing else. The watch alone cannot say it often, because a poll that ends without a change
// brings all values again. A watch that is behind and stays so sits on a dead connection: it is
// made to ask anew.
type pulse struct{ *shared }

// behind is how long the watch may take to bring what the pulse knows of: and three times what
// the last reading took, for one that is slow would else be broken off again and again.
const behind = 3 * time.Second

func (a *pulse) run(ctx context.Context) error {
	if _, err := a.data.Reader().Wait(ctx, Snapshot.Loaded); err != nil {
		return nil
	}
	var sent time.Time
	ask := func(ctx context.Context) (uint64, error) {
		sent = time.Now()
		return a.store.PrefixIndex(ctx, a.keys.ConfigData())
	}
	pause := func(_ error, wait time.Duration) time.Duration { return min(wait, a.MaxAge/4) }
	for index := range store.Repeat(ctx, a.store.Store, "config pulse", pause, ask) {
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		if a.matches(ctx, index) {
			a.confirm(sent)
		} else {
			a.polls.Renew()
		}
		store.Pause(ctx, a.MaxAge/4)
	}
	return nil
}

// matches tells whether the cache shows what Consul has, or soon does. An index that went back is
// that of a Consul that was restored: the watch may wait for ever for one above what it had.
func (a *pulse) matches(ctx context.Context, index uint64) bool {
	if a.data.Get().index > index {
		// the cache may have been faster
		again, err := a.store.PrefixIndex(ctx, a.keys.ConfigData())
		return err == nil && a.data.Get().index <= again
	}
	own, cancel := context.WithTimeout(ctx, behind+3*time.Duration(a.readTime.Load()))
	defer cancel()
	_, err := a.data.Reader().Wait(own, func(s Snapshot) bool { return s.index >= index })
	return err == nil
}
