package protocol

import (
	"log/slog"

	"github.com/coordd/coordd/internal/store"
)

// Store is the way to Consul for one service: a [store.Store], the names of the service's keys, and
// the transactions that mean something to its members.
type Store struct {
	store.Store
	keys  Keys
	log   *slog.Logger
	still standstill
}

// New returns the store of a service; it does not talk to Consul yet. The error is
// [store.ErrInvalid].
func New(service string, cfg store.Config) (*Store, error) {
	keys, err := KeysOf(service)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s, err := store.Open(cfg)
	if err != nil {
		return nil, err
	}
	return &Store{Store: s, keys: keys, log: cfg.Logger}, nil
}

// Keys returns the keys of the service.
func (s *Store) Keys() Keys { return s.keys }

// KV returns the key-value store for hosts. Keys are used as given, without the service's prefix;
// creating one moves a counter below service/<service>/sequence/kv/.
func (s *Store) KV() *store.KV {
	return store.NewKV(s, func(key string) string { return s.keys.SequenceOf("kv", key) })
}
