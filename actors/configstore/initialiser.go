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

// Origin says how this store began.
type Origin uint8

const (
	OriginUnknown Origin = iota
	Initialised          // there was no configuration: this store has begun it
	Loaded               // there was one
)

func (o Origin) String() string { return [...]string{"unknown", "initialised", "loaded"}[o] }

// initialiser creates the key root when it is missing, at the start and later. Consul wakes a watch
// of an empty prefix at every write to a neighbour.
type initialiser struct{ *shared }

// recreatePause is how long the initialiser waits after a failure, and before it creates a deleted
// key again.
const recreatePause = 5 * time.Second

func (a *initialiser) run(ctx context.Context) error {
	warned := false
	for {
		s, err := a.data.Reader().Wait(ctx, func(s Snapshot) bool {
			return s.loaded && (s.find(rootKey) == nil || a.origin.Get() == OriginUnknown)
		})
		if err != nil {
			return nil
		}
		if err := a.fault.Inject(ctx); err != nil {
			return err
		}
		began := a.origin.Get() == OriginUnknown
		if s.find(rootKey) != nil {
			a.origin.Set(Loaded)
			continue
		}
		if !began && !store.Pause(ctx, recreatePause) {
			return nil
		}
		// A log would have a later process make it, and report as refused what another has made.
		_, err = a.submit(ctx, submission{unlogged: true,
			ops: []Op{SetAt(rootKey, []byte(rootValue), 0)}})
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
		case errors.Is(err, ErrConflict): // another process was first
		case !warned:
			// A store whose token may not write still reads.
			warned = true
			a.log.Warn("config-not-initialised", "key", a.keys.ConfigKey(rootKey), "err", err)
		}
		if began {
			a.origin.Set(origin)
		}
		if err != nil && !store.Pause(ctx, recreatePause) {
			return nil
		}
	}
}
