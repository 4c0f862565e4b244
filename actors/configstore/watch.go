package configstore

import (
	"context"
	"strings"

	"github.com/coordd/coordd/internal/protocol"
)

// Watch follows a key or a prefix. It is pulled and belongs to one goroutine; one that is not asked
// costs nothing and needs no closing.
type Watch struct {
	store *Store
	what  string
	exact bool
	last  Snapshot
	begun bool
}

// Watch follows one key.
func (s *Store) Watch(key string) *Watch { return &Watch{store: s, what: key, exact: true} }

// WatchPrefix follows the keys that begin with prefix; "" means all of them.
func (s *Store) WatchPrefix(prefix string) *Watch { return &Watch{store: s, what: prefix} }

// Next returns what has changed since the last call, in the order of the keys. The first call
// returns at once with everything that is there; later calls wait for a change. Of several changes
// of one key Next shows the last. The changes of one transaction come together. Errors: the
// context's, [ErrNoBackend], [ErrStopped], and [ErrInvalid] for a key that cannot be.
func (w *Watch) Next(ctx context.Context) ([]Change, error) {
	if w.store.shared == nil {
		return nil, ErrNoBackend
	}
	if w.exact {
		if err := protocol.CheckConfigKey(w.what); err != nil {
			return nil, err
		}
	}
	own, done := w.store.shared.untilStopped(ctx)
	defer done()
	data := w.store.shared.data.Subscribe()
	for {
		now, err := data.Next(own)
		if err != nil {
			return nil, context.Cause(own)
		}
		if !now.loaded {
			continue
		}
		first := !w.begun
		changes := w.last.changes(now, w.what, w.exact)
		w.last, w.begun = now, true
		if first || len(changes) > 0 {
			return changes, nil
		}
	}
}

// String says what is watched.
func (w *Watch) String() string {
	if w.exact {
		return "config key " + w.what
	}
	return "config keys " + strings.TrimSuffix(w.what, "*") + "*"
}
