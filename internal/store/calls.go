package store

import (
	"context"
	"time"
)

// Calls is what a store is asked for. Everything else here is made of these calls: watches, retries,
// writers under a guard, sequence keys, the renewal of a session. Another store than Consul would
// have to answer them, with the meaning that their methods of [Store] say.
type Calls interface {
	CreateSession(ctx context.Context, o SessionOptions) (id string, sent time.Time, err error)
	RenewSession(ctx context.Context, id string, limit time.Duration) (sent time.Time, err error)
	SessionInfo(ctx context.Context, id string) (o SessionOptions, exists bool, err error)
	DestroySession(ctx context.Context, id string) error

	Get(ctx context.Context, key string, c Consistency) (e Entry, found bool, index uint64, err error)
	List(ctx context.Context, prefix string, c Consistency) (all []Entry, index uint64, err error)
	ListKeys(ctx context.Context, prefix, separator string) ([]string, error)
	PrefixIndex(ctx context.Context, prefix string) (uint64, error)
	// poll is a read that waits until the index of the key or prefix has moved.
	poll(ctx context.Context, w *Watch) ([]Entry, uint64, error)

	NamedTxn(ctx context.Context, what string, ops ...Op) (Result, error)

	RegisterInstance(ctx context.Context, i Instance) error
	ReportInstance(ctx context.Context, i Instance, output string) error
	DeregisterInstance(ctx context.Context, i Instance) error
}

var _ Calls = (*Store)(nil)
