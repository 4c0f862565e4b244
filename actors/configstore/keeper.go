package configstore

import "context"

// keeper keeps the cache: it puts what the watcher sees and what this store has written into one
// snapshot. It asks nobody anything, so it is never busy for long.
type keeper struct{ *shared }

func (a *keeper) run(ctx context.Context) error {
	own := a.own.Open()
	defer own.Close()
	views := a.sight.Subscribe()
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
				a.hears(v.asked) // not before the cache shows it
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

// recall tells the keeper of a write, and does not come back before the cache shows it: a keeper
// that failed over it is asked again.
func (sh *shared) recall(ctx context.Context, writes []ownWrite) error {
	for {
		_, err := sh.own.Call(ctx, writes)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
