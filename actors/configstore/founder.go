package configstore

import (
	"context"
	"errors"
)

// rootKey says that the configuration was begun. Its value is of no account; it is not empty, because the
// system before this one takes an empty value for a missing key.
const (
	rootKey   = "root"
	rootValue = "{}"
)

// Origin says how this store began.
type Origin uint8

const (
	OriginUnknown Origin = iota
	Initialised          // there was no configuration: this store has begun it
	Loaded               // there was one
)

func (o Origin) String() string { return [...]string{"unknown", "initialised", "loaded"}[o] }

// founder begins the configuration when there is none. It ends when that is settled.
type founder struct{ *house }

func (a *founder) run(ctx context.Context) error {
	s, err := a.data.Reader().Wait(ctx, Snapshot.Loaded)
	if err != nil {
		return nil
	}
	if err := a.took(ctx); err != nil {
		return err
	}
	if s.find(rootKey) != nil {
		a.birth.Set(Loaded)
		return nil
	}
	_, err = a.submit(ctx, []Op{SetAt(rootKey, []byte(rootValue), 0)})
	switch {
	case ctx.Err() != nil:
	case err == nil:
		a.log.Info("config-initialised", "key", a.keys.ConfigKey(rootKey))
		a.birth.Set(Initialised)
	case errors.Is(err, ErrConflict):
		a.birth.Set(Loaded) // another one was first
	default:
		// A token that only reads is good for reading.
		a.log.Warn("config-not-initialised", "key", a.keys.ConfigKey(rootKey), "err", err)
		a.birth.Set(Loaded)
	}
	return nil
}
