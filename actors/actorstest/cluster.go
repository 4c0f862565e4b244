package actorstest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/hashicorp/consul/api"
)

// Service is the name of the service, unless Configure says otherwise.
const Service = "test"

// Cluster is an embedded Consul and the members that a test has started on it. It is safe for
// concurrent use.
type Cluster struct {
	referee
	consul *devconsul.Server
	client *api.Client

	members []*Member // all that were ever started
	served  map[string]pipe
}

// New starts the embedded Consul; the end of the test stops it. In a bubble, call it with the
// bubble's own t.
func New(t testing.TB) *Cluster {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(consul.Close)
	return &Cluster{referee: referee{t: t, judge: testkit.NewJudge()}, consul: consul,
		client: consul.Client(), served: map[string]pipe{}}
}

// Client returns a client of the embedded Consul.
func (c *Cluster) Client() *api.Client { return c.client }

// Operator is coordd's operator: it changes the workload, gives orders and reads the status.
func (c *Cluster) Operator() *operator.Client {
	c.t.Helper()
	o, err := operator.New(c.client, Service)
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// AddWork adds items without a payload; for more use Operator.
func (c *Cluster) AddWork(ids ...string) {
	c.t.Helper()
	var items []operator.WorkInput
	for _, id := range ids {
		items = append(items, operator.WorkInput{ID: id})
	}
	if err := c.Operator().AddWork(context.WithoutCancel(c.t.Context()), items...); err != nil {
		c.t.Fatal(err)
	}
}

// Workers tells which member works on which item at this moment: by its function, not by what
// Consul says.
func (c *Cluster) Workers() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.judge.Working)
}

// Await waits until what is so, and ends the test when it is not within that time (virtual time, in
// a bubble).
func (c *Cluster) Await(within time.Duration, what string, so func() bool) {
	c.t.Helper()
	if _, held := testkit.Virtual(within, 50*time.Millisecond, so); !held {
		c.t.Fatalf("waited %v in vain for %s; who works on what: %v%s", within, what, c.Workers(),
			c.blocks())
	}
}

// blocks says what is known to be in the way.
func (c *Cluster) blocks() (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if actor, since := m.coord.Hanging(time.Now()); actor != "" {
			text += fmt.Sprintf("; %s: %s hangs since %v", m.id, actor, since)
		}
		for id, h := range m.coord.Holdings().Get().Items.All() {
			if h.Phase == facts.Stopping {
				text += fmt.Sprintf("; %s: the work of %s was told to stop at %v, and has not "+
					"returned", m.id, id, h.Since)
			}
		}
	}
	s, err := c.Operator().Status(context.WithoutCancel(c.t.Context()))
	if err != nil {
		return text + "; " + err.Error()
	}
	return text + "; the service's status: " + cmp.Or(s.Problem(), "nothing is wrong")
}

// ConsulElection makes Consul's servers elect a leader for that long: it answers every request with
// an error, and restarts the time of every session afterwards, as a real one does. It blocks for d.
func (c *Cluster) ConsulElection(d time.Duration) {
	c.consul.ElectionStart()
	time.Sleep(d)
	c.consul.ElectionEnd()
}

// referee fails the test when two do the same thing at once, or when a token does not rise.
type referee struct {
	t     testing.TB
	again bool // one may do it again with the same token

	mu    sync.Mutex // of the test as a whole
	judge testkit.Judge
}

// begin holds the start of something to what is promised, and returns what to call at its end.
func (r *referee) begin(who, what string, token uint64) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again && token == r.judge.Tokens[what] {
		delete(r.judge.Tokens, what)
	}
	for _, breach := range r.judge.Begin(who, what, token) {
		r.t.Errorf("%s", breach)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.judge.End(who, what)
	}
}

// log writes to the test's output, which is shown when it fails or with -v.
func (r *referee) log() *slog.Logger { return slog.New(slog.NewTextHandler(r.t.Output(), nil)) }
