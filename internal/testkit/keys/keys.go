// Package keys writes single keys for tests.
package keys

import (
	"context"

	"github.com/coordd/coordd/internal/store"
)

// Put writes one key, whatever it holds, in one try. A key that is locked stays locked.
func Put(ctx context.Context, s store.Store, key string, value []byte, flags uint64) error {
	_, err := s.Txn(ctx, store.Set(key, value, flags))
	return err
}

// Delete removes one key, in one try. A missing key is no error.
func Delete(ctx context.Context, s store.Store, key string) error {
	_, err := s.Txn(ctx, store.Delete(key))
	return err
}
