package configstore

import "context"

// cacheUpdater merges the watcher's views and this store's own writes into one snapshot, which is
// the cache. It makes no calls, so it is never busy for long.
type cacheUpdater struct{ *shared }

func (a *cacheUpdater) run(ctx context.Context) error {
	own := a.ownWrites.Open()
	defer own.Close()
	views := a.watched.Subscribe()
	merged := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-views.Changed():
			v := views.Take()
			if err := a.fault.Inject(ctx); err != nil {
				return err
			}
			if v.serial > merged && v.serial > 0 {
				a.data.Set(a.data.Get().merge(v))
				merged = v.serial
				a.confirm(v.readBegan) // after Set: the cache shows it
			}
		case r := <-own.Requests():
			r.Handle(func(ctx context.Context, writes []ownWrite) (struct{}, error) {
				if err := a.fault.Inject(ctx); err != nil {
					panic(err)
				}
				a.data.Set(a.data.Get().apply(writes))
				return struct{}{}, nil
			})
		}
	}
}

// updateCache returns when the cache shows the writes. If the cache updater fails, it is asked
// again.
func (sh *shared) updateCache(ctx context.Context, writes []ownWrite) error {
	for {
		_, err := sh.ownWrites.Call(ctx, writes)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
