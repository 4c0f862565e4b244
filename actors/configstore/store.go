package configstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// Store is the configuration of one service as this process sees it. Its methods may be called by
// any number of goroutines, from before it runs until after it has stopped; they wait for what they
// need as long as their context lasts, and no longer than the store runs ([ErrStopped]).
type Store struct {
	shared *shared
	begun  atomic.Bool // by Run
}

// ErrStarted is returned by [Store.Run] when it was called before.
var ErrStarted = errors.New("was run before")

// New checks the settings; it starts nothing and asks Consul nothing. Errors: [ErrInvalid].
func New(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	var err error
	if c.Client, err = store.ClientOr(c.Client); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	s, err := protocol.New(c.Service, store.Config{Client: c.Client, Address: c.Consul,
		Logger: c.Logger, Observer: c.Observer})
	if err != nil {
		return nil, err
	}
	return &Store{shared: newShared(c, s)}, nil
}

// None is a store without a backend: every call returns [ErrNoBackend] at once.
func None() *Store { return &Store{} }

// Run keeps the store going until ctx ends; then it lets what is under way end and returns nil.
// Errors: that the log cannot be opened, or an actor that failed again and again
// ([supervisor.EscalationError]). Run is called once: [ErrStarted].
func (s *Store) Run(ctx context.Context) error {
	if s.shared == nil {
		return ErrNoBackend
	}
	if !s.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("the config store of service %q %w: make another with New",
			s.shared.Service, ErrStarted)
	}
	defer s.Close() // the tree may have ended before it started anything
	root, err := supervisor.New("config-store", tree(s.shared), supervisor.WithLogger(s.shared.log))
	if err != nil {
		return err
	}
	return root.Run(ctx)
}

// Child returns the store as a child of a supervision tree, to be used in place of Run. The child
// of [None] fails once with [ErrNoBackend], and its tree goes on.
func (s *Store) Child(name string) supervisor.Child {
	if s.shared == nil {
		return supervisor.Child{Name: name, Run: s.Run, Restart: supervisor.Temporary}
	}
	t := tree(s.shared)
	return supervisor.Child{Name: name, Tree: &t}
}

// Close says that nobody runs the store any more: who waits for it is told [ErrStopped]. Run
// and the actors of [Store.Child] call it when they end. It is for a host whose tree ends before it
// has started them.
func (s *Store) Close() {
	if s.shared != nil {
		s.shared.lifetime.Load().end()
	}
}

// UntilStopped returns a context that ends with ctx, and with the cause [ErrStopped] when nobody
// runs the store any more: for waiting for [Store.Data]. Call done once it is not needed.
func (s *Store) UntilStopped(ctx context.Context) (own context.Context, done func()) {
	if s.shared == nil {
		return ctx, func() {}
	}
	return s.shared.untilStopped(ctx)
}

// Enabled tells whether there is a backend.
func (s *Store) Enabled() bool { return s.shared != nil }

// Data is the cache. While Consul is away it holds what was read last. It shows a write of this
// store, as one of others, as soon as the watch brings it.
func (s *Store) Data() messages.Reader[Snapshot] {
	return reader(s, func(sh *shared) *messages.State[Snapshot] { return sh.data })
}

// Queue is what waits to be written, and what was refused.
func (s *Store) Queue() messages.Reader[Queue] {
	return reader(s, func(sh *shared) *messages.State[Queue] { return sh.queue })
}

func reader[T any](s *Store, of func(*shared) *messages.State[T]) messages.Reader[T] {
	if s.shared == nil {
		var none T
		return messages.NewState(none).Reader()
	}
	return of(s.shared).Reader()
}

// Fresh tells whether the cache may be believed: it was loaded, Consul's last word is at most MaxAge
// old, and it shows the writes of this store.
func (s *Store) Fresh() bool {
	return s.shared != nil && s.shared.data.Get().loaded && s.shared.fresh()
}

// WaitLoaded waits until the configuration has been read, the log is open and the creation of a
// missing key root was tried.
// Errors: [ErrUnreachable] with the context's, [ErrNoBackend].
func (s *Store) WaitLoaded(ctx context.Context) error {
	if s.shared == nil {
		return ErrNoBackend
	}
	if err := s.shared.loaded(ctx); err != nil || s.shared.ReadOnly {
		return err
	}
	return s.shared.sees(ctx, func(ctx context.Context) error {
		_, err := s.shared.begun.Reader().Wait(ctx, func(begun bool) bool { return begun })
		return err
	})
}

func (sh *shared) loaded(ctx context.Context) error {
	if sh.data.Get().loaded && sh.lifetime.Load().ctx.Err() == nil {
		return nil
	}
	return sh.sees(ctx, func(ctx context.Context) error {
		_, err := sh.data.Reader().Wait(ctx, Snapshot.Loaded)
		return err
	})
}

// sees runs f, which waits for the first reading, until the caller or the store ends.
func (sh *shared) sees(ctx context.Context, f func(context.Context) error) error {
	own, done := sh.untilStopped(ctx)
	defer done()
	if f(own) == nil {
		return nil
	}
	err := context.Cause(own)
	if errors.Is(err, ErrStopped) {
		return err
	}
	return fmt.Errorf("%w: the configuration has not been read yet: %w", ErrUnreachable, err)
}

// untilStopped returns ctx, which also ends with [ErrStopped] when the store stops.
func (sh *shared) untilStopped(ctx context.Context) (context.Context, func()) {
	own, cancel := context.WithCancelCause(ctx)
	running := sh.lifetime.Load()
	stop := context.AfterFunc(running.ctx, func() { cancel(ErrStopped) })
	return own, func() { stop(); cancel(nil) }
}

// Get returns the entry of a key: from the cache while that is fresh, else from Consul. Errors:
// [ErrNotFound], [ErrInvalid], [ErrDenied], and [ErrUnreachable] with the context's.
func (s *Store) Get(ctx context.Context, key string) (Entry, error) {
	if s.shared == nil {
		return Entry{}, ErrNoBackend
	}
	if err := protocol.CheckConfigKey(key); err != nil {
		return Entry{}, err
	}
	if s.Fresh() {
		if e := s.shared.data.Get().find(key); e != nil {
			return e.clone(), nil
		}
		return Entry{}, missing(key)
	}
	return s.shared.read(ctx, key)
}

func missing(key string) error {
	return fmt.Errorf("config key %q: %w", key, ErrNotFound)
}

func (e *Entry) clone() Entry {
	out := *e
	out.Value = bytes.Clone(e.Value)
	return out
}

// read asks Consul for one key, until it answers.
func (sh *shared) read(ctx context.Context, key string) (Entry, error) {
	var out *Entry
	err := store.RetryUnlessDenied(ctx, sh.store, "config get", func(ctx context.Context) error {
		e, found, _, err := sh.store.Get(ctx, sh.keys.ConfigKey(key), store.Consistent)
		if out = nil; found {
			out, _ = fromStore(sh.keys, e)
		}
		return err
	})
	switch {
	case err != nil:
		return Entry{}, err
	case out == nil:
		return Entry{}, missing(key)
	}
	return *out, nil
}

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

// List returns the entries whose keys begin with prefix, in the order of their keys, all of one
// moment. Errors as for Get, but for [ErrNotFound].
func (s *Store) List(ctx context.Context, prefix string) ([]Entry, error) {
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	out := []Entry{}
	for e := range snap.All(prefix) {
		out = append(out, e.clone())
	}
	return out, nil
}

// Cached returns the cache, and whether it is fresh: then [Store.Snapshot] answers from it and asks
// Consul nothing.
func (s *Store) Cached() (Snapshot, bool) {
	if s.shared == nil {
		return Snapshot{}, false
	}
	return s.shared.data.Get(), s.Fresh()
}

// Snapshot returns all of the configuration at one moment: the cache while that is fresh, else what
// Consul says. Errors as for Get, but for [ErrNotFound].
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	if s.shared == nil {
		return Snapshot{}, ErrNoBackend
	}
	cache, ok := s.Cached()
	if ok {
		return cache, nil
	}
	sh := s.shared
	var view store.View
	err := store.RetryUnlessDenied(ctx, sh.store, "config list", func(ctx context.Context) (
		err error) {
		view.Entries, view.Index, err = sh.store.List(ctx, sh.keys.ConfigData(), store.Consistent)
		return err
	})
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{}.next(sh.keys, view), nil
}

// Put writes a key, whatever it holds, and returns when Consul has it, with the key's index.
//
// Errors:
//
//   - [ErrTooLarge], [ErrInvalid], [ErrFull], [ErrDenied]: the write is never applied.
//   - [ErrConflict]: the write had to wait and another came first; it is never applied.
//   - [ErrPending], with the context's error or [ErrStopped]: the write is in the log and will be
//     applied, or be reported as a conflict: see [Queue].
//   - [ErrLog]: the disk refused the write; it is never applied.
//   - [ErrLog] with [ErrUncertain]: the disk may hold it; if so, it is sent when the log is opened
//     again.
//   - The context's error alone, [ErrStopped]: without a log, it may have been applied.
//   - [ErrUnreachable]: it may have been applied, and is not tried again.
func (s *Store) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.one(ctx, Set(key, value))
}

// Delete deletes a key; one that does not exist is deleted already. Errors as for Put.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.one(ctx, Remove(key))
	return err
}

// CompareAndSet writes a key if its index is the one given (that of an [Entry]; 0: if it does not
// exist), and returns its new index. Errors as for Put; [ErrConflict] when the index is another.
func (s *Store) CompareAndSet(ctx context.Context, key string, value []byte, index uint64) (uint64,
	error) {
	return s.one(ctx, SetAt(key, value, index))
}

// CompareAndDelete deletes a key if its index is the one given. Errors as for CompareAndSet.
func (s *Store) CompareAndDelete(ctx context.Context, key string, index uint64) error {
	_, err := s.one(ctx, RemoveAt(key, index))
	return err
}

func (s *Store) one(ctx context.Context, op Op) (uint64, error) {
	if s.shared == nil {
		return 0, ErrNoBackend
	}
	r, err := s.shared.submit(ctx, op)
	return r.keys[op.key], err
}

// Txn applies operations on several keys, each of them once, all or none, and returns the
// transaction's index. Errors as for CompareAndSet.
func (s *Store) Txn(ctx context.Context, ops ...Op) (uint64, error) {
	if s.shared == nil {
		return 0, ErrNoBackend
	}
	r, err := s.shared.submit(ctx, ops...)
	return r.index, err
}

// Update reads a key, has change make the new value of it, and writes that if nobody else has
// written the key meanwhile; else it begins again. Change gets the entry and whether it exists; it
// may be called several times. Its error ends the update and is returned. The entry that is
// returned is the one that was written. Other errors as for Put, but for [ErrConflict].
func (s *Store) Update(ctx context.Context, key string, change func(old Entry, found bool) ([]byte,
	error)) (Entry, error) {
	if s.shared == nil {
		return Entry{}, ErrNoBackend
	}
	read := s.Get
	ladder := store.NewLadder()
	for {
		old, err := read(ctx, key)
		found := err == nil
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Entry{}, err
		}
		value, err := change(old, found)
		if err != nil {
			return Entry{}, err
		}
		index, err := s.CompareAndSet(ctx, key, value, old.Index)
		if err == nil {
			created := old.CreateIndex
			if !found {
				created = index
			}
			return Entry{Key: key, Value: append([]byte{}, value...), Index: index,
				CreateIndex: created, Flags: old.Flags}, nil
		}
		if !errors.Is(err, ErrConflict) {
			return Entry{}, err
		}
		// The cache may not show yet what the write met.
		read = s.shared.read
		if !store.Pause(ctx, ladder.NextBackOff()/5) {
			return Entry{}, fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// submit checks a write, puts it into the outbox and waits for what becomes of it.
func (sh *shared) submit(ctx context.Context, ops ...Op) (receipt, error) {
	if sh.ReadOnly {
		return receipt{}, ErrReadOnly
	}
	if err := Check(ops...); err != nil {
		return receipt{}, err
	}
	own := slices.Clone(ops)
	for i := range own {
		own[i].value = bytes.Clone(own[i].value)
	}
	// Before the first reading it is not known what the write is based on.
	if err := sh.loaded(ctx); err != nil {
		return receipt{}, err
	}
	calling, done := sh.untilStopped(ctx)
	defer done()
	c := newCall(calling)
	logged, err := sh.writes.Call(calling, submission{ops: own, call: c})
	if err == nil {
		select {
		case a := <-c.answer:
			return a.receipt, a.err
		case <-calling.Done():
		}
	}
	if !c.leave() {
		a := <-c.answer // it came at the same moment
		return a.receipt, a.err
	}
	switch {
	case err != nil && (calling.Err() == nil || !errors.Is(err, calling.Err())):
		return receipt{}, err
	case logged:
		return receipt{}, fmt.Errorf("config key %q: %w: it will be written when Consul answers, or "+
			"be reported as a conflict: %w", ops[0].key, ErrPending, context.Cause(calling))
	}
	return receipt{}, fmt.Errorf("config key %q: gave up waiting for Consul, which may or may not "+
		"have taken the write: %w", ops[0].key, context.Cause(calling))
}
