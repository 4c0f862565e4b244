package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/hashicorp/consul/api"
)

// consul is the [Store] on Consul.
type consul struct {
	link
	client      *api.Client
	callTimeout time.Duration
	observer    facts.Observer
	registered  sync.Map               // id of an instance -> token that it was registered with
	own         atomic.Pointer[string] // the session opened or renewed last; nil: there was none
}

// Open returns the store on Consul; it does not talk to Consul yet. The error is [ErrInvalid].
func Open(cfg Config) (Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &consul{client: cfg.Client, observer: cfg.Observer,
		callTimeout: cmp.Or(cfg.CallTimeout, DefaultCallTimeout)}
	s.link = link{log: cmp.Or(cfg.Logger, slog.Default()), addr: cfg.Address,
		fixedAddr: cfg.Address != "", stale: largeRead * s.callTimeout}
	if s.addr == "" {
		s.addr = api.DefaultConfig().Address
	}
	return s, nil
}

func (c Consistency) options() *api.QueryOptions {
	return &api.QueryOptions{RequireConsistent: c == Consistent, AllowStale: c == Stale}
}

// maxPathKey bounds a key that is asked for by its path. No key of ours has more than 2 KiB. A path
// has up to three bytes for each of a key, and one of more than 1 MiB is answered with 431, which
// does not say that it will never be answered otherwise.
const maxPathKey = 64 << 10

// Get reads one key. The index is the answer's X-Consul-Index, at least 1; it
// comes with a missing key as well.
func (s *consul) Get(ctx context.Context, key string, c Consistency) (e Entry, found bool,
	index uint64, err error) {
	entries, index, err := s.read(ctx, query{key: key, opts: c.options(), timeout: s.callTimeout})
	if err != nil || len(entries) == 0 {
		return Entry{}, false, index, err
	}
	return entries[0], true, index, nil
}

// List reads all keys under prefix, which must end in "/", sorted by key. Its
// own deadline is ten call timeouts, because such an answer can be large. An
// answer that an access rule made shorter is [ErrDenied]: nobody may plan on a
// part of it. Without a token of one's own that is known only of an answer that
// was made empty.
func (s *consul) List(ctx context.Context, prefix string, c Consistency) (entries []Entry,
	index uint64, err error) {
	return s.read(ctx, query{key: prefix, recurse: true, opts: c.options(),
		timeout: largeRead * s.callTimeout})
}

// ListKeys reads the names of the keys under prefix, which must end in "/",
// sorted, consistently, and the index that a watch of the prefix has or will have. With a separator
// it returns each name up to and with the first separator after the prefix, once.
func (s *consul) ListKeys(ctx context.Context, prefix, separator string) (names []string,
	index uint64, err error) {
	c := call{op: "list keys", key: prefix, timeout: largeRead * s.callTimeout,
		need: fmt.Sprintf("key_prefix:list and read on %q", prefix)}
	if err := checkPrefix(c.op, prefix); err != nil {
		return nil, 0, err
	}
	err = s.do(ctx, c, func(ctx context.Context) error {
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
		names, index = got, max(1, meta.LastIndex)
		return checkMeta(c, meta)
	})
	if err == nil && len(names) == 0 {
		var entries []Entry
		entries, err = s.whole(ctx, c, prefix)
		names = namesOf(entries, prefix, separator)
	}
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(names)
	return names, index, nil
}

// Poll reads key, or all below it if it ends in "/", once its index has passed after, or when wait
// is over.
func (s *consul) Poll(ctx context.Context, key string, after uint64, wait time.Duration) ([]Entry,
	uint64, error) {
	// The server adds up to a sixteenth; the rest is for the way there and back.
	// A large prefix may take longer than that: then the error makes the next
	// call a plain read, which has more time.
	return s.read(ctx, query{key: key, recurse: strings.HasSuffix(key, "/"),
		opts:    &api.QueryOptions{WaitIndex: after, WaitTime: wait},
		timeout: wait + wait/16 + s.callTimeout})
}

// query is a read of one key or of a prefix.
type query struct {
	key     string
	recurse bool
	opts    *api.QueryOptions
	timeout time.Duration
}

func (s *consul) read(ctx context.Context, q query) (entries []Entry, index uint64, err error) {
	c := call{op: "get", key: q.key, timeout: q.timeout, need: fmt.Sprintf("key:read on %q", q.key),
		poll: q.opts.WaitIndex > 0}
	check := CheckKey
	if q.recurse {
		c.op, c.need, check = "list", fmt.Sprintf("key_prefix:read (and list) on %q", q.key),
			checkPrefix
	}
	if err := check(c.op, q.key); err != nil {
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

func (s *consul) fetch(ctx context.Context, c call, q query) ([]Entry, *api.QueryMeta, error) {
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
