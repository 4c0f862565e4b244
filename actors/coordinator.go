package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/actors/internal/actor"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/messages"
	"github.com/coordd/coordd/supervisor"
)

// Coordinator is one member: a supervised tree of actors, to be run beside the
// host's own. Its states may be read and followed at any time, before, during and after Run.
type Coordinator struct {
	cfg    Config
	base   *actor.Base
	cells  *cells
	routes *routing.Router
	root   *supervisor.Supervisor
	conf   *configstore.Store
	begun  atomic.Bool
	over   context.Context // Run has returned
	ends   context.CancelFunc
}

// New checks the settings and wires the tree; it starts nothing and asks
// Consul nothing. Errors: [ErrConfig], all that is wrong at once.
func New(cfg Config) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.Logger = asynclog.Wrap(cfg.Logger)
	var err error
	if cfg.Client, err = store.ClientOr(cfg.Client); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	log := cfg.Logger.With(slog.String("service", cfg.Service), slog.String("member", cfg.ID))
	s, err := protocol.New(cfg.Service, store.Config{Client: cfg.Client, Address: cfg.Consul,
		Logger: log, Observer: cfg.Observer})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	base := actor.NewBase(cfg.settings(), s, log)
	c := &Coordinator{cfg: cfg, base: base, cells: newCells(base)}
	c.over, c.ends = context.WithCancel(context.Background())
	c.cells.capacity.Set(cfg.Capacity)
	c.cells.tags.Set(slices.Clone(cfg.Tags))
	if c.routes, err = routing.New(routing.Config{Service: cfg.Service, Client: cfg.Client,
		Consul: cfg.Consul, MaxAge: max(cfg.Bounds().StopsWithin.Total(), routing.MinMaxAge),
		Observer: cfg.Observer, Logger: cfg.Logger.With(slog.String("member", cfg.ID)),
	}); err != nil {
		return nil, err
	}
	members := tree(c.base, c.cells, c.routes.Tree())
	if c.conf, err = newConfigStore(cfg, log); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrConfig, err)
	}
	if c.conf.Enabled() {
		// First to start and last to stop: work may use it to its end.
		child := c.conf.Child("config-store")
		child.Gate = true // a log that cannot be opened stops the member before it has begun
		members.Children = append([]supervisor.Child{child}, members.Children...)
	}
	c.root, err = supervisor.New("coordinator", members, supervisor.WithLogger(log),
		supervisor.WithStopTimeout(cfg.StopTimeout+stopSlack))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// settings are what of the configuration the actors see.
func (c Config) settings() actor.Settings {
	set := actor.Settings{
		Service: c.Service, ID: c.ID, Lead: c.Lead,
		Address: c.Address, Zone: c.Zone, Version: c.Version, WorkVersion: c.WorkVersion,
		TTL: c.TTL, Lease: c.Lease, Renew: c.Renew, LockDelay: c.LockDelay,
		LeaseMargin: c.LeaseMargin, CheckTTL: max(0, c.CheckTTL),
		Grace: c.Grace, LeaderSoak: c.LeaderSoak, Merge: c.Merge,
		WorkerSoak: c.WorkerSoak, StopTimeout: c.StopTimeout, KeepItems: c.KeepItems,
		BrakeHold: c.BrakeHold, MoveBudget: c.MoveBudget,
		MoveBudgetShare: c.MoveBudgetShare, MaxRestarts: c.MaxRestarts,
		RestartWindow: c.RestartWindow,
		OnChange:      actor.OnChange(c.OnChange),
		Process:       *c.Process, Liveness: c.Liveness, Lock: c.Lock, Observer: c.Observer,
		Copied: c.Copied,
	}
	if c.Work != nil {
		set.Work = func(ctx context.Context, item actor.Item) error {
			return c.Work(ctx, Item(item))
		}
	}
	return set
}

// Run joins the cluster and keeps this member going until ctx ends; then it hands
// everything over and returns nil. Consul need not be there at the start, nor
// all the time.
//
// It returns early with an error when it cannot go on: [ErrIDTaken], a setting that Consul refuses,
// or an actor that failed again and again ([supervisor.EscalationError], with the whole history of
// causes). What did not stop in time is in a [supervisor.StuckError]; after the StopTimeout and 30
// s it waits for nothing more. Run is called once: [ErrStarted].
func (c *Coordinator) Run(ctx context.Context) error {
	if !c.begun.CompareAndSwap(false, true) {
		return fmt.Errorf("member %q %w: make another with New", c.cfg.ID, ErrStarted)
	}
	defer c.ends()
	defer c.routes.Close() // the tree may have ended before it started them
	defer c.conf.Close()
	defer func() { // a leader-tracker that failed as it stopped has not said so
		if c.cells.leadership.Get().Role == facts.Leading {
			c.cells.leadership.Set(facts.Leadership{Role: facts.Uncertain})
		}
	}()
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() {
		stop(fmt.Errorf("%w: %w", StopShutdown, context.Cause(ctx)))
	})()
	return c.root.Run(own)
}

// stopSlack is how much longer than its work a member may take to stop, all in all.
const stopSlack = 30 * time.Second

// Child returns the coordinator as a child for the host's own supervision tree.
// It is not restarted: what makes Run fail is for the host to decide upon. Run is called once: so a
// restart of the group that it is in (OneForAll, RestForOne) ends the host's tree with
// [ErrStarted]. Give it a place before or above such a group.
func (c *Coordinator) Child(name string) supervisor.Child {
	// Not Temporary: one that was stopped with its group would be missing, and nobody be told.
	return supervisor.Child{Name: name, Restart: supervisor.Transient,
		StopTimeout: c.cfg.StopTimeout + stopSlack + time.Second,
		Run: func(ctx context.Context) error {
			if err := c.Run(ctx); err != nil {
				return supervisor.Escalate(err)
			}
			return nil
		}}
}

// ID returns this member's id.
func (c *Coordinator) ID() string { return c.cfg.ID }

// Settings returns the configuration with its defaults filled in.
func (c *Coordinator) Settings() Config { return c.cfg }

// SetCapacity changes the most weight that this member may hold; 0: no limit; [NoItems]: it takes
// no items. It may be called at any time. The member's record says so as soon as Consul takes it,
// without a new registration, and the leader then moves what is too much. Settings goes on to name
// the first one.
func (c *Coordinator) SetCapacity(weight uint64) { c.cells.capacity.Set(weight) }

// Session is this member's Consul session and lease.
func (c *Coordinator) Session() messages.Reader[Session] {
	return c.cells.session.Reader()
}

// Membership is how far this member has come with its own record.
func (c *Coordinator) Membership() messages.Reader[Membership] {
	return c.cells.membership.Reader()
}

// Leadership is who leads, as far as this member can tell. It is what the leader-tracker said last:
// while that actor hangs, Session tells whether the lease behind it still holds. The context of
// Lead ends with the lease.
func (c *Coordinator) Leadership() messages.Reader[Leadership] {
	return c.cells.leadership.Reader()
}

// Members is who is registered. It is kept up to date while this member leads
// and stands still otherwise: a follower does not watch what it does not need.
func (c *Coordinator) Members() messages.Reader[facts.Members] {
	return c.cells.members.Reader()
}

// Workload is the list of items; kept up to date while this member leads.
func (c *Coordinator) Workload() messages.Reader[facts.Workload] {
	return c.cells.workload.Reader()
}

// Distribution is what this member has assigned as the leader; kept up to date while it leads.
func (c *Coordinator) Distribution() messages.Reader[Distribution] {
	return c.cells.plan.Reader()
}

// Control is what operators have ordered; kept up to date while this member leads.
func (c *Coordinator) Control() messages.Reader[facts.Control] {
	return c.cells.control.Reader()
}

// Assignments is what the leader wants this member to run.
func (c *Coordinator) Assignments() messages.Reader[facts.Assignments] {
	return c.cells.assignments.Reader()
}

// Holdings is what this member runs, or has not released yet.
func (c *Coordinator) Holdings() messages.Reader[Holdings] {
	return c.cells.holdings.Reader()
}

// WaitForLeader returns the id of the leader as soon as there is one, or the context's error.
// [ErrStopped]: Run has returned, and nothing is heard of leaders any more.
func (c *Coordinator) WaitForLeader(ctx context.Context) (string, error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.over, cancel)()
	l, err := c.Leadership().Wait(own, func(l facts.Leadership) bool {
		return l.Leader != "" && c.over.Err() == nil
	})
	if err == nil {
		return l.Leader, nil
	}
	if err = ctx.Err(); err == nil {
		err = fmt.Errorf("this member has ended: %w", ErrStopped)
	}
	return "", fmt.Errorf("waiting for a leader of service %q: %w", c.cfg.Service, err)
}

// KV returns Consul's key-value store, retried on the ladder while Consul does
// not answer. Keys are used as given, from Consul's root.
func (c *Coordinator) KV() KV { return KV{c.base.Store.KV()} }

// ConfigStore is the service's configuration, in Consul below config_data/. With the backend none
// every call of it is [configstore.ErrNoBackend].
func (c *Coordinator) ConfigStore() *configstore.Store { return c.conf }

// Report describes the whole tree: states, restarts, causes.
func (c *Coordinator) Report() supervisor.Report { return c.root.Report() }

// Counters are the restarts and failures of the whole tree since New. Each item's work is a child
// of coordinator/workers.
func (c *Coordinator) Counters() supervisor.Counters { return c.root.Counters() }

// LogRecordsDropped is how many records of [Config.Logger] were dropped so far.
func (c *Coordinator) LogRecordsDropped() int { return asynclog.Dropped(c.cfg.Logger) }

// Hanging finds the actor that has hung at now for the longest time, and since when it has been at
// what it does; the empty string if none does. The lease is not renewed while an actor hangs, so
// that others take the items over.
func (c *Coordinator) Hanging(now time.Time) (actor string, since time.Time) {
	return c.base.Stuck(now)
}

// Subscribe follows what happens to the actors; size is how many steps may wait for a slow reader
// before some are dropped, which the stream then says.
func (c *Coordinator) Subscribe(size int) *supervisor.Subscription { return c.root.Subscribe(size) }

// ErrNotFound is returned by [KV.Get] for a key that does not exist (an empty value is a value).
var ErrNotFound = store.ErrNotFound

// KV reads and writes single keys for the host.
type KV struct{ kv *store.KV }

// Get returns a key's value. Errors: [ErrNotFound], or the context's.
func (k KV) Get(ctx context.Context, key string) ([]byte, error) { return k.kv.Get(ctx, key) }

// Put writes a key and returns when Consul has it. Where the answer to a try was lost, and others
// have replaced the value before the next, it is written once more, over theirs: see
// [Coordinator.ConfigStore] for writes that are done once.
func (k KV) Put(ctx context.Context, key string, value []byte) error {
	return k.kv.Put(ctx, key, value)
}

// Delete deletes a key; one that does not exist is deleted already.
func (k KV) Delete(ctx context.Context, key string) error { return k.kv.Delete(ctx, key) }
