package actors_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/eventcheck"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/keys"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// cluster is members on an embedded Consul, in virtual time. It holds every run
// to the first two invariants: no item is worked on by two members at once, and
// the tokens of an item rise. And its leaders say in the event log what they do.
type cluster struct {
	t       *testing.T
	consul  *devconsul.Server
	client  *api.Client
	store   *protocol.Store
	log     *slog.Logger
	members map[string]*member
	way     http.RoundTripper // of members that are started from now on; nil: straight to Consul
	// checkTTL is the setting of members that are started from now on.
	checkTTL time.Duration

	mu      sync.Mutex
	judge   testkit.Judge
	starts  map[string]int
	leading map[string]int
	faults  []string
	// denied: its leaders may be denied the event log.
	denied bool
}

type member struct {
	id     string
	c      *actors.Coordinator
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	net    *transport.Wire
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{
		t: t, consul: devconsul.New(
			devconsul.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
				NoJitter: true, SessionTTLMin: actors.MinTTL}),
		members: map[string]*member{}, judge: testkit.NewJudge(),
		starts: map[string]int{}, leading: map[string]int{},
	}
	c.client = c.consul.Client()
	c.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo,
		ReplaceAttr: shortTime}))
	s, err := protocol.New("demo", store.Config{Client: c.client, Logger: c.log})
	if err != nil {
		t.Fatal(err)
	}
	c.store = s
	c.consul.OnCommit(func(commit devconsul.Commit) {
		if faults := eventcheck.Judge(s.Keys(), commit, c.denied); len(faults) > 0 {
			c.mu.Lock()
			c.faults = append(c.faults, faults[0])
			c.mu.Unlock()
		}
	})
	return c
}

func shortTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.String("t", a.Value.Time().Format("05.000"))
	}
	return a
}

// run plays f in a bubble with a new cluster and stops everything at its end.
func run(t *testing.T, f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer func() {
			for _, id := range slices.Sorted(maps.Keys(c.members)) {
				c.members[id].cancel()
			}
			for _, m := range c.members {
				<-m.done
			}
			c.consul.Close()
			c.verify()
		}()
		f(c)
	})
}

func (c *cluster) verify() {
	c.t.Helper()
	for _, f := range c.faults {
		c.t.Error(f)
	}
}

type option func(*actors.Config)

// start runs a member. Each plays a host of its own, so that nothing is known of
// its predecessors but what Consul says; sameHost makes that known.
func (c *cluster) start(id string, options ...option) *member {
	c.t.Helper()
	m := &member{id: id, done: make(chan struct{}), net: transport.NewWire(c.consul.RoundTripper())}
	if c.way != nil {
		m.net.Via(c.way)
	}
	cfg := actors.Config{
		Host: actors.Host{Process: &actors.Process{Instance: fmt.Sprintf("%s-%d", id,
			time.Now().UnixNano()),
			Host: id + ".test", BootID: id, PIDNamespace: "1", PID: 1, StartTime: 1}},
		Timing:  actors.Timing{CheckTTL: c.checkTTL},
		Service: "demo", ID: id, Client: devconsul.ClientOver(m.net), Logger: c.log,

		Work: func(ctx context.Context, item actors.Item) error { return c.work(ctx, m, item) },
		Lead: c.duty(id),
	}
	for _, o := range options {
		o(&cfg)
	}
	var err error
	m.c, err = actors.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	c.members[id] = m
	go func() {
		defer close(m.done)
		m.err = m.c.Run(ctx)
	}()
	return m
}

// duty is the leader's function of every test: it notes who leads.
func (c *cluster) duty(id string) actors.Lead {
	return func(ctx context.Context) error {
		c.mu.Lock()
		for other, n := range c.leading {
			if n > 0 {
				c.faults = append(c.faults, fmt.Sprintf("Lead: %s begins while %s is at it", id,
					other))
			}
		}
		c.leading[id]++
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		c.leading[id]--
		c.mu.Unlock()
		return nil
	}
}

// work is the work function of every test: it notes who runs what.
func (c *cluster) work(ctx context.Context, m *member, item actors.Item) error {
	c.mu.Lock()
	c.faults = append(c.faults, c.judge.Begin(m.id, item.ID, item.Token)...)
	c.starts[item.ID]++
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.judge.End(m.id, item.ID)
	c.mu.Unlock()
	return ctx.Err()
}

// stop ends a member cleanly and waits for it.
func (c *cluster) stop(id string) {
	c.t.Helper()
	m := c.members[id]
	m.cancel()
	<-m.done
	if m.err != nil {
		c.t.Errorf("%s stopped with %v", id, m.err)
	}
	delete(c.members, id)
}

// errKilled is what a dead member has of its requests. A call that it makes on its way out ends
// with that: after an error of a connection alone it would be made again.
var errKilled = fmt.Errorf("killed: %w", store.ErrNoAnswer)

// kill ends a member as kill -9 does: from now on nothing that it sends arrives. It takes no longer
// than its work takes to stop.
func (c *cluster) kill(id string) {
	m := c.members[id]
	m.net.Cut(errKilled)
	c.mu.Lock()
	for item, at := range c.judge.Working {
		if at == id {
			delete(c.judge.Working, item) // its work died with it
		}
	}
	c.mu.Unlock()
	m.cancel()
	<-m.done
	delete(c.members, id)
}

func (c *cluster) items(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("device_group_%04d", i+1)
	}
	return ids
}

// outlasting is a context that ends so long after another one.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return lasting, cancel
}

// stopsIn is a member whose work takes so long to stop.
func stopsIn(d time.Duration) option {
	return func(cfg *actors.Config) {
		work := cfg.Work
		cfg.Work = func(ctx context.Context, item actors.Item) error {
			lasting, cancel := outlasting(ctx, d)
			defer cancel()
			return work(lasting, item)
		}
	}
}

// resignsIn is a member whose duty as leader takes so long to end.
func resignsIn(d time.Duration) option {
	return func(cfg *actors.Config) {
		duty := cfg.Lead
		cfg.Lead = func(ctx context.Context) error {
			lasting, cancel := outlasting(ctx, d)
			defer cancel()
			return duty(lasting)
		}
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// operator gives orders about the cluster's items.
func (c *cluster) operator() *operator.Client {
	c.t.Helper()
	op, err := operator.New(c.client, "demo")
	c.must(err)
	return op
}

// addWork writes items as a user would.
func (c *cluster) addWork(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if err := keys.Put(c.t.Context(), c.store, c.store.Keys().WorkItem(id),
			[]byte("payload of "+id),
			0); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) removeWork(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if err := keys.Delete(c.t.Context(), c.store, c.store.Keys().WorkItem(id)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// loads counts the items that each member works on now.
func (c *cluster) loads() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	loads := map[string]int{}
	for id := range c.members {
		loads[id] = 0
	}
	for _, m := range c.judge.Working {
		loads[m]++
	}
	return loads
}

func (c *cluster) totalStarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.starts {
		n += s
	}
	return n
}

func (c *cluster) startsOf(item string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts[item]
}

// put writes a key as a stranger or an operator would; below the service's root.
func (c *cluster) put(key, value string) {
	c.t.Helper()
	if err := keys.Put(c.t.Context(), c.store, c.store.Keys().Root()+key, []byte(value),
		0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) delete(key string) {
	c.t.Helper()
	if err := keys.Delete(c.t.Context(), c.store, c.store.Keys().Root()+key); err != nil {
		c.t.Fatal(err)
	}
}

// follower returns a member that does not lead.
func (c *cluster) follower() string {
	leader := c.leader()
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		if id != leader {
			return id
		}
	}
	c.t.Fatal("no follower")
	return ""
}

// await waits in virtual time until ok holds; it fails the test after limit.
func (c *cluster) await(what string, limit time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	took, held := testkit.Virtual(limit, 50*time.Millisecond, ok)
	if !held {
		c.t.Fatalf("not within %v: %s; loads %v", limit, what, c.loads())
	}
	return took
}

// balanced tells whether total items run, shared out with a spread of one at most.
func (c *cluster) balanced(total int) func() bool {
	return func() bool {
		sum, least, most := 0, 1<<30, 0
		for _, n := range c.loads() {
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		return sum == total && most-least <= 1
	}
}

func (c *cluster) leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.leading {
		if n > 0 {
			return id
		}
	}
	return ""
}
