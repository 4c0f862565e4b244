package configstore

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// rootKey exists once the configuration was begun. Nobody reads its value. It is not empty, because
// the system before this one takes an empty value for a missing key.
const (
	rootKey   = "root"
	rootValue = "{}"
)

// initialiser creates the key root when it is missing, at the start and later: Consul wakes a watch
// of an empty prefix at every write to a neighbour.
type initialiser struct{ *shared }

// recreatePause is how long the initialiser waits after each try.
const recreatePause = 5 * time.Second

func (a *initialiser) run(ctx context.Context) error {
	once := store.NewOnce(a.store, a.keys.Sequence("config/"+rootKey))
	for {
		s, err := a.data.Reader().Wait(ctx, func(s Snapshot) bool {
			return s.loaded && (s.find(rootKey) == nil || !a.begun.Get())
		})
		if err != nil {
			return nil
		}
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		if s.find(rootKey) == nil {
			_, err = once.Txn(ctx, store.Create(a.keys.ConfigKey(rootKey), []byte(rootValue)))
			switch {
			case err == nil:
				a.log.Info("config-initialised", "key", a.keys.ConfigKey(rootKey))
				a.store.Succeeded("config root")
			case !errors.Is(err, store.ErrRefused): // a store whose token may not write still reads
				a.store.Failed("config root", err, recreatePause)
			}
		}
		a.begun.Set(true)
		if s.find(rootKey) == nil && !store.Pause(ctx, recreatePause) {
			return nil
		}
	}
}
