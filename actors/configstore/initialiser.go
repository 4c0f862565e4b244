package configstore

import (
	"context"
	"errors"

	"github.com/coordd/coordd/internal/store"
)

// rootKey exists once the configuration was begun. Nobody reads its value. It is not empty, because
// the system before this one takes an empty value for a missing key.
const (
	rootKey   = "root"
	rootValue = "{}"
)

// initialiser creates the key root when it is missing at the start. A store whose token may not
// write reads all the same.
type initialiser struct{ *shared }

func (a *initialiser) run(ctx context.Context) error {
	s, err := a.data.Reader().Wait(ctx, Snapshot.Loaded)
	if err != nil {
		return nil
	}
	if err := a.fault.Inject(ctx); err != nil {
		return err
	}
	if s.find(rootKey) == nil {
		once := store.NewOnce(a.store, a.keys.Sequence("config/"+rootKey))
		_, err = once.Txn(ctx, store.Create(a.keys.ConfigKey(rootKey), []byte(rootValue)))
		switch {
		case err == nil:
			a.log.Info("config-initialised", "key", a.keys.ConfigKey(rootKey))
		case !errors.Is(err, store.ErrRefused):
			a.log.Warn("config-not-initialised", "key", a.keys.ConfigKey(rootKey), "err", err,
				"do", "nothing here needs the key; it is made at the next start")
		}
	}
	a.begun.Set(true)
	<-ctx.Done()
	return nil
}
