package configstore

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// rootKey says that the configuration was begun. Its value is of no account; it is not empty,
// because the system before this one takes an empty value for a missing key.
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

// founder begins the configuration when there is none, and begins it again when somebody has
// deleted all of it: a watch of an empty prefix is woken by every write to a neighbour.
type founder struct{ *shared }

// refoundPause is how long the founder waits after a failure, and before it makes again what was
// deleted.
const refoundPause = 5 * time.Second

func (a *founder) run(ctx context.Context) error {
	warned := false
	for {
		s, err := a.data.Reader().Wait(ctx, func(s Snapshot) bool {
			return s.loaded && (s.find(rootKey) == nil || a.birth.Get() == OriginUnknown)
		})
		if err != nil {
			return nil
		}
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		began := a.birth.Get() == OriginUnknown
		if s.find(rootKey) != nil {
			a.birth.Set(Loaded)
			continue
		}
		if !began && !store.Pause(ctx, refoundPause) {
			return nil
		}
		_, err = a.submit(ctx, []Op{SetAt(rootKey, []byte(rootValue), 0)})
		origin := Loaded
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && began:
			a.log.Info("config-initialised", "key", a.keys.ConfigKey(rootKey))
			origin = Initialised
		case err == nil:
			a.log.Warn("config-root-restored", "key", a.keys.ConfigKey(rootKey), "do",
				"leave this key where it is: it keeps the watch quiet")
		case errors.Is(err, ErrConflict): // another one was first
		case !warned:
			// A token that only reads is good for reading.
			warned = true
			a.log.Warn("config-not-initialised", "key", a.keys.ConfigKey(rootKey), "err", err)
		}
		if began {
			a.birth.Set(origin)
		}
		if err != nil && !store.Pause(ctx, refoundPause) {
			return nil
		}
	}
}
