package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/hashicorp/consul/api"
)

// Store is what everything above this package takes. Watches, retries, writers under a guard,
// sequence keys and the renewal of a session are made of these calls. Consul is the one store that
// there is ([Open]); another one would answer the same calls. A Store is safe for concurrent use.
// Its calls start no goroutine that outlives them.
type Store interface {
	// CreateSession opens a session. What it locks is deleted when it ends.
	CreateSession(ctx context.Context, o SessionOptions) (id string, sent time.Time, err error)
	// RenewSession gives a session its full TTL anew, from sent on. Each request of it lasts for
	// limit at the most. [ErrSessionGone]: everything held by the session is over.
	RenewSession(ctx context.Context, id string, limit time.Duration) (sent time.Time, err error)
	// SessionInfo asks, consistently, whether a session is alive, and with what it was made.
	SessionInfo(ctx context.Context, id string) (o SessionOptions, exists bool, err error)
	// DestroySession ends a session. One that is gone already is no error.
	DestroySession(ctx context.Context, id string) error

	// Get reads one key. The index is at least 1, also for a missing key.
	Get(ctx context.Context, key string, c Consistency) (e Entry, found bool, index uint64,
		err error)
	// List reads all keys under prefix, which ends in "/": all of them or an error.
	List(ctx context.Context, prefix string, c Consistency) (all []Entry, index uint64, err error)
	// ListKeys reads their names, up to the separator, and the index of the prefix.
	ListKeys(ctx context.Context, prefix, separator string) (names []string, index uint64,
		err error)
	// Poll reads key, or all below it if it ends in "/", once its index has passed after, or when
	// wait is over.
	Poll(ctx context.Context, key string, after uint64, wait time.Duration) (all []Entry,
		index uint64, err error)

	// Txn applies all of ops, in order, or none, in one try.
	Txn(ctx context.Context, ops ...Op) (Result, error)

	// RegisterInstance registers a process with its check, passing.
	RegisterInstance(ctx context.Context, i Instance) error
	// ReportInstance says that the process is there.
	ReportInstance(ctx context.Context, i Instance, output string, warns bool) error
	// DeregisterInstance takes a process and its check away.
	DeregisterInstance(ctx context.Context, i Instance) error

	// DoubtedInstances names the instances of a service whose checks have run out, or warn.
	DoubtedInstances(ctx context.Context, service string) (map[string]Doubt, error)

	// Failed and Succeeded report how tries go, so that one outage is one line of the log.
	Failed(what string, err error, retryIn time.Duration)
	Succeeded(what string)
}

// Defaults and bounds of [Config].
const (
	DefaultCallTimeout = 3 * time.Second
	DefaultPollWait    = time.Minute
	// MaxPollWait is the server's own cap for blocking queries.
	MaxPollWait = 10 * time.Minute
	// largeRead is how many call timeouts a whole prefix may take: 100,000 keys
	// are 18 MB.
	largeRead = 10
)

// Config is what a [Store] on Consul is made of.
type Config struct {
	Client *api.Client  // required
	Logger *slog.Logger // default: slog.Default()
	// of Consul, only for logs; default: as in the failed request, or CONSUL_HTTP_ADDR
	Address     string
	CallTimeout time.Duration // the deadline of each plain call; default 3 s
	// Observer is told of every call. Default: nobody is.
	Observer facts.Observer
}

// Validate reports the first setting that is missing or out of range, as
// [ErrInvalid]. Zero durations mean the default.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return Invalid("store", "Client is nil; pass a Consul API client")
	case c.CallTimeout < 0:
		return Invalid("store", "CallTimeout is %v; give a positive duration", c.CallTimeout)
	}
	return nil
}

// Entry is one key with its value and its indexes.
type Entry struct {
	Key         string
	Value       []byte // never nil after a read; empty is a value
	Flags       uint64
	Session     string // the holder of the lock; empty when not locked
	CreateIndex uint64 // larger for a key that was deleted and made anew
	ModifyIndex uint64 // the log entry of the last change
	LockIndex   uint64 // not a fence: any plain write resets it
}

// Consistency chooses how fresh a read must be.
type Consistency int

const (
	// the leader answers; from the past while it replays its log after an election
	Default Consistency = iota
	// the leader asks a quorum first: for anything that ownership rests on
	Consistent
	Stale // any server answers, also without a leader
)
