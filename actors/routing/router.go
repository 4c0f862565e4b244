package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
	"github.com/hashicorp/consul/api"
)

// DefaultMaxAge is for how long members with the default settings may go on working without hearing
// from Consul.
const DefaultMaxAge = 9 * time.Second

// MinMaxAge is the least [Config].MaxAge: Consul is asked four times in it.
const MinMaxAge = 2 * time.Second

// manyMembers is from where on the long polls of one router come near to the connections that
// Consul allows one address.
const manyMembers = 150

// Config says whose items are located. Zero values stand for the defaults named at each field.
type Config struct {
	// Service names the cluster. Required.
	Service string
	// Client talks to Consul. Default: one made from the CONSUL_HTTP_* variables.
	Client *api.Client
	// Consul is what the log calls Client's server.
	Consul string
	// MaxAge is how old the table may be and still be answered from; at least [MinMaxAge]. The
	// default, 9 s, is the TTL less the lease margin of members with the default settings: when
	// Consul is gone for all of them, each works on for that long after its last renewal, and is
	// the right answer; after that none works, and there is no right answer. When it is gone for
	// this router alone, items move meanwhile and a shorter MaxAge is the more careful one.
	MaxAge time.Duration
	// Logger. Default: slog.Default().
	Logger *slog.Logger
	// Observer is told of each call to Consul. Default: nobody is.
	Observer facts.Observer
}

// ErrConfig is returned by [New] for a setting that cannot work; the text says which. It is the
// ErrConfig of packages actors and dispatch, too.
var ErrConfig = errors.New("bad setting")

// Validate tells what is wrong with the settings; nil when nothing is.
func (c Config) Validate() error {
	var errs []error
	if _, err := protocol.KeysOf(c.Service); err != nil {
		errs = append(errs, fmt.Errorf("%w: %v", ErrConfig, err))
	}
	if c.MaxAge != 0 && c.MaxAge < MinMaxAge {
		errs = append(errs, fmt.Errorf("%w: max age %v: give at least %v", ErrConfig, c.MaxAge,
			MinMaxAge))
	}
	return errors.Join(errs...)
}

// Router answers where items are. It is safe for concurrent use, also before, during and after Run;
// its answers are [ErrNotReady] while it does not run.
type Router struct {
	store  *protocol.Store
	keys   protocol.Keys
	log    *slog.Logger
	maxAge time.Duration

	table   *table
	polls   store.Polls
	wanted  *messages.State[bool]
	open    atomic.Bool
	begun   atomic.Bool // by Run
	stopped atomic.Bool
	// the shares that are to be read again, and for which acks
	late    *messages.State[map[string]uint64]
	lookups *lookups
	consul  string // the host:port that is asked
}

// ErrStarted is returned by [Router.Run] when it was called before.
var ErrStarted = errors.New("was run before")

// New checks the settings; it starts nothing and asks Consul nothing. Errors: [ErrConfig].
func New(cfg Config) (*Router, error) {
	cfg.Logger = asynclog.Wrap(cfg.Logger).With(slog.String("service", cfg.Service))
	s, err := cfg.open()
	if err != nil {
		return nil, err
	}
	cfg.MaxAge = cmp.Or(cfg.MaxAge, DefaultMaxAge)
	unreadable := protocol.UnreadableKeys{Log: cfg.Logger}
	return &Router{
		store: s, keys: s.Keys(), log: cfg.Logger, maxAge: cfg.MaxAge,
		table:  newTable(s.Keys(), cfg.MaxAge, unreadable.Skip),
		wanted: messages.NewState(false), late: messages.NewState[map[string]uint64](nil),
		lookups: newLookups(s), consul: store.ConsulAddress(cfg.Client, cfg.Consul),
	}, nil
}

// open checks the settings and makes the way to Consul.
func (cfg *Config) open() (s *protocol.Store, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Client, err = store.ClientOr(cfg.Client); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	s, err = protocol.New(cfg.Service, store.Config{Client: cfg.Client, Address: cfg.Consul,
		Logger: cfg.Logger, Observer: cfg.Observer})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	return s, nil
}

// Run keeps the table until ctx ends, from the first question on. When it has ended all questions
// are answered with [ErrStopped]. Run is called once: [ErrStarted].
func (r *Router) Run(ctx context.Context) error {
	if !r.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("the router of service %q %w: make another with New",
			r.keys.Service(), ErrStarted)
	}
	root, err := supervisor.New("router", r.Tree(), supervisor.WithLogger(r.log))
	if err != nil {
		return err
	}
	return root.Run(ctx)
}

// ConsulAddress is the host:port of the Consul that the router asks, which no member's record
// should name: package dispatch sends nothing there. Empty: it is asked over a socket, or the
// client's transport does not fail when a request's context has ended, so that it cannot be found
// out. Nothing is sent. Of a client for a socket it is localhost:80 unless [Config].Consul begins
// with unix://.
func (r *Router) ConsulAddress() string { return r.consul }

// Close says that nobody keeps the table any more: each question gets [ErrStopped] at once. Run
// and the actors of [Router.Tree] call it when they end. It is for a host whose tree ends before it
// has started them.
func (r *Router) Close() {
	r.stopped.Store(true)
	r.rereadAll(time.Now())
	r.table.close()
}

// Tree returns the router's actors, for a supervision tree of the host's own, instead of Run. They
// wait for the first question, and never escalate: a router that cannot go on answers ErrNotReady.
func (r *Router) Tree() supervisor.Tree {
	actor := func(name string, run func(context.Context) error) supervisor.Child {
		return supervisor.Child{Name: name, Run: run, HealthyAfter: 10 * time.Second}
	}
	return supervisor.Tree{
		MaxRestarts: -1,
		Children: []supervisor.Child{
			actor("routing-pulse", r.runPulse),
			actor("routing-members", r.follow("routing: members", r.keys.Members(),
				r.table.members)),
			actor("routing-acks", r.follow("routing: acks", r.keys.Acks(), r.table.acks)),
			{Name: "routing-shares", Tree: &supervisor.Tree{
				MaxRestarts: -1, StopTogether: true,
				Children: []supervisor.Child{actor("watch-manager", r.manageShares)},
			}},
		},
	}
}

// Open makes the router read its table now and keep it from here on, instead of at the first
// question.
func (r *Router) Open() {
	if !r.open.Load() && r.open.CompareAndSwap(false, true) {
		r.rereadAll(time.Now())
		r.wanted.Set(true)
	}
}

// Locate returns where item is. It answers at once from the table, with two exceptions: before
// everything has been read for the first time it waits for that, until ctx ends; and for an item
// that no member has, Consul is asked whether it is in the workload, by one read for all who ask,
// whose answer counts for a second. 200 such reads are made in a second: those who would have to
// wait for theirs longer than ctx or a call lasts are told [ErrNotReady]. With a ctx that has ended
// it asks nobody. Errors: [ErrMoving], [ErrNoOwner], [ErrUnknownItem],
// [ErrNotReady], [ErrStopped].
func (r *Router) Locate(ctx context.Context, item string) (Location, error) {
	r.Open()
	loc, what := r.table.look(item, time.Now())
	if what == owned {
		return loc, nil
	}
	if err := protocol.CheckID("item id", item); err != nil {
		return Location{}, fmt.Errorf("%w: %v", itemError(item, ErrUnknownItem), err)
	}
	for cursor := r.table.changed.Subscribe(); what == stale; {
		unread := r.table.since().IsZero()
		// it may have been read since the look before
		if loc, what = r.table.look(item, time.Now()); what != stale || !unread {
			break
		}
		if err := r.waitChanged(ctx, cursor); err != nil {
			return Location{}, fmt.Errorf("%w: %w", itemError(item, ErrNotReady), err)
		}
	}
	return r.answer(ctx, item, loc, what)
}

// waitChanged waits for a change of a table that has never been read.
func (r *Router) waitChanged(ctx context.Context, cursor *messages.Cursor[struct{}]) error {
	if r.stopped.Load() {
		return ErrStopped
	}
	if _, err := cursor.Next(ctx); err != nil {
		return fmt.Errorf("the members and their items have not been read yet: %w", err)
	}
	return nil
}

func (r *Router) answer(ctx context.Context, item string, loc Location, what finding) (Location,
	error) {
	switch what {
	case owned:
		return loc, nil
	case moving:
		return Location{}, itemError(item, ErrMoving)
	case ownerless:
		return Location{}, fmt.Errorf("%w: its member has vanished", itemError(item, ErrNoOwner))
	case unread:
		return Location{}, fmt.Errorf("%w: a member's items are just being read",
			itemError(item, ErrNotReady))
	case stale:
		return Location{}, fmt.Errorf("%w: Consul has not answered for %v",
			itemError(item, ErrNotReady), time.Since(r.table.since()).Round(time.Second))
	}
	exists, err := r.lookups.inWorkload(ctx, item)
	switch {
	case err != nil:
		return Location{}, fmt.Errorf("%w: looking it up in the workload: %w",
			itemError(item, ErrNotReady), err)
	case !exists:
		return Location{}, itemError(item, ErrUnknownItem)
	}
	return Location{}, itemError(item, ErrNoOwner)
}

// Await is Locate that waits while the item is being moved or cannot be located, until ctx ends;
// then the error is the last one, and matches that of ctx as well. It does not wait for a router
// that has stopped.
func (r *Router) Await(ctx context.Context, item string) (Location, error) {
	cursor := r.table.changed.Subscribe()
	for {
		cursor.Take()
		loc, err := r.Locate(ctx, item)
		if err == nil || !Retriable(err) {
			return loc, err
		}
		// What changes by time alone is looked at by time.
		again := time.NewTimer(time.Second)
		select {
		case <-cursor.Changed():
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			if errors.Is(err, ctx.Err()) {
				return Location{}, err
			}
			return Location{}, fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// Members returns the registered members, by id. Before everything has been read for the first time
// it waits for that, until ctx ends. Errors: [ErrNotReady], [ErrStopped].
func (r *Router) Members(ctx context.Context) ([]Member, error) {
	r.Open()
	for cursor := r.table.changed.Subscribe(); ; {
		cursor.Take()
		unread := r.table.since().IsZero() // before the list: it may be read just then
		if members, ok := r.table.list(time.Now()); ok {
			return members, nil
		}
		if !unread {
			return nil, fmt.Errorf("the members %w: Consul has not answered for %v", ErrNotReady,
				time.Since(r.table.since()).Round(time.Second))
		}
		if err := r.waitChanged(ctx, cursor); err != nil {
			return nil, fmt.Errorf("the members %w: %w", ErrNotReady, err)
		}
	}
}

// MaxAge is how old the table may be and still be answered from.
func (r *Router) MaxAge() time.Duration { return r.maxAge }
