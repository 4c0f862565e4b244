package configstore

import (
	"context"

	"github.com/coordd/coordd/internal/protocol"
)

// Read returns the entry of a key as Consul has it now. It does not use the cache. Errors as for
// [Store.Get].
func (s *Store) Read(ctx context.Context, key string) (Entry, error) {
	if s.shared == nil {
		return Entry{}, ErrNoBackend
	}
	if err := protocol.CheckConfigKey(key); err != nil {
		return Entry{}, err
	}
	return s.shared.read(ctx, key)
}
