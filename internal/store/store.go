package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/messages"
	"github.com/hashicorp/consul/api"
)

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

// Config is what a [Store] is made of.
type Config struct {
	Client *api.Client  // required
	Logger *slog.Logger // default: slog.Default()
	// of Consul, only for logs; default: as in the failed request, or CONSUL_HTTP_ADDR
	Address     string
	CallTimeout time.Duration // the deadline of each plain call; default 3 s
	// how long a long poll waits at the server; default 1 min, at most 10 min
	PollWait time.Duration
	// Observer is told of every call. Default: nobody is.
	Observer messages.Observer
}

// Validate reports the first setting that is missing or out of range, as
// [ErrInvalid]. Zero durations mean the default.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return Invalid("store", "Client is nil; pass a Consul API client")
	case c.CallTimeout < 0:
		return Invalid("store", "CallTimeout is %v; give a positive duration", c.CallTimeout)
	case c.PollWait < 0, c.PollWait > MaxPollWait:
		return Invalid("store", "PollWait is %v; Consul waits at most %v", c.PollWait, MaxPollWait)
	}
	return nil
}

// Store is the way to Consul. It is safe for concurrent use and starts no goroutine that outlives a
// call.
type Store struct {
	client      *api.Client
	log         *slog.Logger
	callTimeout time.Duration
	pollWait    time.Duration
	observer    messages.Observer
	link        link
	socket      bool                   // Consul is asked over one
	own         atomic.Pointer[string] // the session that a [Renewal] keeps; nil: there was none
}

// New returns a store; it does not talk to Consul yet. The error is
// [ErrInvalid].
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{client: cfg.Client, log: cfg.Logger, callTimeout: cfg.CallTimeout,
		pollWait: cfg.PollWait, observer: cfg.Observer}
	s.log = cmp.Or(s.log, slog.Default())
	s.callTimeout = cmp.Or(s.callTimeout, DefaultCallTimeout)
	s.pollWait = cmp.Or(s.pollWait, DefaultPollWait)
	s.link = link{log: s.log, addr: cfg.Address, fixedAddr: cfg.Address != "",
		stale: largeRead * s.callTimeout}
	if s.link.addr == "" {
		s.link.addr = api.DefaultConfig().Address
	}
	s.socket = strings.HasPrefix(s.link.addr, "unix://")
	return s, nil
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

func (c Consistency) options() *api.QueryOptions {
	return &api.QueryOptions{RequireConsistent: c == Consistent, AllowStale: c == Stale}
}

// maxPathKey bounds a key that is asked for by its path. No key of ours has more than 2 KiB. A path
// has up to three bytes for each of a key, and one of more than 1 MiB is answered with 431, which
// does not say that it will never be answered otherwise.
const maxPathKey = 64 << 10

// Get reads one key. The index is the answer's X-Consul-Index, at least 1; it
// comes with a missing key as well. A key that is not all ASCII is read by a
// transaction, consistently; then the index is that of its last change.
func (s *Store) Get(ctx context.Context, key string, c Consistency) (e Entry, found bool,
	index uint64, err error) {
	if strings.ContainsFunc(key, foreign) {
		return s.getByTxn(ctx, key)
	}
	entries, index, err := s.read(ctx, query{key: key, opts: c.options(), timeout: s.callTimeout})
	if err != nil || len(entries) == 0 {
		return Entry{}, false, index, err
	}
	return entries[0], true, index, nil
}

// getByTxn is Get for a key that Consul may refuse in a path.
func (s *Store) getByTxn(ctx context.Context, key string) (e Entry, found bool, index uint64,
	err error) {
	res, err := s.NamedTxn(ctx, "get", GetOrEmpty(key))
	if err != nil {
		return Entry{}, false, 0, err
	}
	if e = res.Entries[0]; e.CreateIndex == 0 {
		return Entry{}, false, 1, nil
	}
	return e, true, e.ModifyIndex, nil
}

// List reads all keys under prefix, which must end in "/", sorted by key. Its
// own deadline is ten call timeouts, because such an answer can be large. An
// answer that an access rule made shorter is [ErrDenied]: nobody may plan on a
// part of it. Without a token of one's own that is known only of an answer that
// was made empty.
func (s *Store) List(ctx context.Context, prefix string, c Consistency) (entries []Entry,
	index uint64, err error) {
	return s.read(ctx, query{key: prefix, recurse: true, opts: c.options(),
		timeout: largeRead * s.callTimeout})
}

// ListKeys reads the names of the keys under prefix, which must end in "/",
// sorted, consistently. With a separator it returns each name up to and with the first
// separator after the prefix, once.
func (s *Store) ListKeys(ctx context.Context, prefix, separator string) ([]string, error) {
	c := call{op: "list keys", key: prefix, timeout: largeRead * s.callTimeout,
		need: fmt.Sprintf("key_prefix:list and read on %q", prefix)}
	if err := cmp.Or(checkPrefix(c.op, prefix), CheckPrints(c.op, prefix)); err != nil {
		return nil, err
	}
	var names []string
	err := s.do(ctx, c, func(ctx context.Context) error {
		got, meta, err := s.client.KV().Keys(prefix, separator,
			Consistent.options().WithContext(ctx))
		if err != nil {
			return err
		}
		for _, name := range got {
			if !strings.HasPrefix(name, prefix) {
				return unreachable(c.String(),
					"the answer holds the key %q, which was not asked for", name)
			}
		}
		names = got
		return checkMeta(c, meta)
	})
	if err == nil && len(names) == 0 {
		var entries []Entry
		entries, err = s.whole(ctx, c, prefix)
		names = namesOf(entries, prefix, separator)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// PrefixIndex asks for the index of prefix, which must end in "/", and for
// nothing else: the names that come with it are cut at the next "/" and thrown
// away. It is the index that a watch of the prefix has or will have, whatever may
// be read of it; the read is consistent, so an answer also says that a leader with
// a quorum is there.
func (s *Store) PrefixIndex(ctx context.Context, prefix string) (uint64, error) {
	c := call{op: "index", key: prefix, timeout: s.callTimeout,
		need: fmt.Sprintf("key_prefix:list and read on %q", prefix)}
	if err := cmp.Or(checkPrefix(c.op, prefix), CheckPrints(c.op, prefix)); err != nil {
		return 0, err
	}
	var index uint64
	err := s.do(ctx, c, func(ctx context.Context) error {
		_, meta, err := s.client.KV().Keys(prefix, "/", Consistent.options().WithContext(ctx))
		if err != nil {
			return err
		}
		index = max(1, meta.LastIndex)
		return checkMeta(c, meta)
	})
	return index, err
}

// query is a read of one key or of a prefix.
type query struct {
	key     string
	recurse bool
	opts    *api.QueryOptions
	timeout time.Duration
}

func (s *Store) read(ctx context.Context, q query) (entries []Entry, index uint64, err error) {
	c := call{op: "get", key: q.key, timeout: q.timeout, need: fmt.Sprintf("key:read on %q", q.key),
		poll: q.opts.WaitIndex > 0}
	check := CheckKey
	if q.recurse {
		c.op, c.need, check = "list", fmt.Sprintf("key_prefix:read (and list) on %q", q.key),
			checkPrefix
	}
	if err := cmp.Or(check(c.op, q.key), CheckPrints(c.op, q.key)); err != nil {
		return nil, 0, err
	}
	if len(q.key) > maxPathKey {
		return nil, 0, Invalid(c.op, "the key has %d bytes; at most %d can be asked for by a path",
			len(q.key), maxPathKey)
	}
	err = s.do(ctx, c, func(ctx context.Context) error {
		var meta *api.QueryMeta
		entries, meta, err = s.fetch(ctx, c, q)
		if err != nil {
			return err
		}
		index = max(1, meta.LastIndex)
		return checkMeta(c, meta)
	})
	if err == nil && q.recurse && len(entries) == 0 {
		// They may have come since, and then the index is of before: a poll by it is answered at
		// once.
		entries, err = s.whole(ctx, c, q.key)
	}
	if err != nil {
		return nil, 0, err
	}
	return entries, index, nil
}

func (s *Store) fetch(ctx context.Context, c call, q query) ([]Entry, *api.QueryMeta, error) {
	opts := q.opts.WithContext(ctx)
	if !q.recurse {
		pair, meta, err := s.client.KV().Get(q.key, opts)
		if err != nil || pair == nil {
			return nil, meta, err
		}
		if pair.Key != q.key {
			return nil, nil, unreachable(c.String(), "the answer is about the key %q", pair.Key)
		}
		return []Entry{entryOf(pair)}, meta, nil
	}
	pairs, meta, err := s.client.KV().List(q.key, opts)
	if err != nil {
		return nil, nil, err
	}
	if pairs != nil && len(pairs) == 0 {
		return nil, nil, unreachable(c.String(),
			"the answer is an empty list, where Consul answers 404")
	}
	entries := make([]Entry, 0, len(pairs))
	for _, pair := range pairs {
		if pair == nil || !strings.HasPrefix(pair.Key, q.key) {
			return nil, nil, unreachable(c.String(),
				"the answer holds a key that was not asked for")
		}
		entries = append(entries, entryOf(pair))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries, meta, nil
}

// checkMeta refuses answers that look like data but are not, or are not all
// of it. A proxy's own 404 has neither of Consul's headers; it must not be
// taken for an empty workload.
func checkMeta(c call, meta *api.QueryMeta) error {
	if meta.LastIndex == 0 && !meta.KnownLeader {
		return unreachable(c.String(),
			"the answer has no X-Consul-Index; is this address Consul's?")
	}
	if meta.ResultsFilteredByACLs {
		return leftOut(c)
	}
	return nil
}

func entryOf(p *api.KVPair) Entry {
	value := p.Value
	if value == nil {
		value = []byte{}
	}
	return Entry{Key: p.Key, Value: value, Flags: p.Flags, Session: p.Session,
		CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex, LockIndex: p.LockIndex}
}

// Put writes one key, whatever it holds, in one try. A key that is locked
// stays locked, but its LockIndex is reset. An identical value and flags
// change nothing and wake nobody.
func (s *Store) Put(ctx context.Context, key string, value []byte, flags uint64) error {
	return s.single(ctx, "put", Set(key, value, flags))
}

// Delete removes one key, in one try. A missing key is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.single(ctx, "delete", Delete(key))
}

// single writes by a transaction of one: the client's plain PUT and DELETE
// throw the server's answer away, so that "false" or a foreign page with status
// 200 would count as written.
func (s *Store) single(ctx context.Context, what string, op Op) error {
	_, err := s.NamedTxn(ctx, what, op)
	return err
}
