package actors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/supervisor"
)

// failure is a way in which an actor can fail.
type failure int

const (
	panics failure = iota
	errs
	exits
	hangs
)

func (f failure) String() string { return [...]string{"panic", "error", "goexit", "hang"}[f] }

func (f failure) kind() supervisor.Kind {
	return [...]supervisor.Kind{supervisor.KindPanic, supervisor.KindError, supervisor.KindGoexit,
		supervisor.KindNil}[f]
}

var errInjected = errors.New("injected")

// saboteur makes one actor of a member fail, once, at a message or at a request.
type saboteur struct {
	actor string
	at    int // the message or request, from 1
	how   failure
	// where: at a message, or at a request, before it is sent or when Consul has answered it.
	where place
	stops bool // the member is told to stop just before

	to      http.RoundTripper
	stop    func()
	ended   time.Time // when Run returned
	release chan struct{}
	once    sync.Once

	mu    sync.Mutex
	seen  map[string]int
	fired time.Time
}

type place int

const (
	atMessage place = iota
	beforeRequest
	afterRequest
)

func (p place) String() string {
	return [...]string{"message", "unsent-request", "answered-request"}[p]
}

func newSaboteur(actor string, where place, at int, how failure) *saboteur {
	return &saboteur{actor: actor, where: where, at: at, how: how, seen: map[string]int{}}
}

func (s *saboteur) didFire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.fired.IsZero()
}

// free lets what hangs go on.
func (s *saboteur) free() { s.once.Do(func() { close(s.release) }) }

// took is the fault of a member's actors: see actors.SetFault.
func (s *saboteur) took(ctx context.Context) error {
	return s.strike(atMessage, path.Base(supervisor.Path(ctx)))
}

// RoundTrip runs in the goroutine of the actor that asks, whose label tells who it is.
func (s *saboteur) RoundTrip(r *http.Request) (*http.Response, error) {
	label, _ := pprof.Label(r.Context(), "actor")
	actor := path.Base(label)
	if actor == "assigner" && bytes.Contains(debug.Stack(), []byte("LeaderTracker")) {
		actor = "leader-tracker" // it asks for an epoch in the assigner's name
	}
	if besides(r.URL.Path) {
		return s.to.RoundTrip(r)
	}
	if err := s.strike(beforeRequest, actor); err != nil {
		return nil, err
	}
	resp, err := s.to.RoundTrip(r)
	if err == nil {
		if err = s.strike(afterRequest, actor); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, err
}

func (s *saboteur) strike(where place, actor string) error {
	if where != s.where {
		return nil
	}
	s.mu.Lock()
	s.seen[actor]++
	if actor != s.actor || s.seen[actor] != s.at {
		s.mu.Unlock()
		return nil
	}
	s.fired = time.Now()
	s.mu.Unlock()
	if s.stops {
		s.stop()
	}
	switch s.how {
	case panics:
		panic(errInjected)
	case exits:
		runtime.Goexit()
	case hangs:
		<-s.release // whatever its context says; then it goes on with what it had in hand
		return nil
	}
	return errInjected
}

// sabotaged starts n1 with s in its actors and on its way to Consul.
func (c *cluster) sabotaged(s *saboteur) *member {
	c.t.Helper()
	s.to, s.release = c.consul.RoundTripper(), make(chan struct{}) // a channel of this bubble
	m := &member{id: "n1", done: make(chan struct{}), net: transport.NewWire(s)}
	var err error
	m.c, err = actors.New(actors.Config{
		Host: actors.Host{Process: &actors.Process{Instance: "n1-1", Host: "n1.test", BootID: "n1",
			PIDNamespace: "1",
			PID:          1, StartTime: 1}}, Timing: actors.Timing{CheckTTL: c.checkTTL},
		Service: "demo", ID: m.id, Client: devconsul.ClientOver(m.net), Logger: c.log,

		Work: func(ctx context.Context, item actors.Item) error { return c.work(ctx, m, item) },
		Lead: c.duty("n1"),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	actors.SetFault(m.c, s.took)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, s.stop = cancel, cancel
	c.members[m.id] = m
	go func() {
		defer close(m.done)
		m.err = m.c.Run(ctx)
		s.ended = time.Now()
	}()
	return m
}

// everyActor names the actors of a member that leads, in the order of the term's.
var everyActor = []string{
	"session-renewer", "record-watcher", "membership-keeper", "leader-watcher", "leader-tracker",
	"term-runner",
	"member-watcher", "ack-watcher", "workload-watcher", "control-watcher", "assigner",
	"assignment-watcher", "worker-manager", "check-keeper", "instance-publisher",
	"state-publisher",
}

var termActors = everyActor[6:11]

// episode is a short life of a cluster in which n1 leads and each of its actors
// has something to do. It returns how many items there are in the end.
func (c *cluster) episode() int {
	pace := func() { time.Sleep(700 * time.Millisecond) }
	pace()
	c.start("n2")
	pace()
	c.put("leader", "a stranger")
	pace()
	c.addWork("later-1", "later-2")
	pace()
	c.put("members/n1", "a stranger")
	pace()
	c.put("control/freeze", "")
	pace()
	c.removeWork("device_group_0001")
	pace()
	c.delete("control/freeze")
	pace()
	c.put("acks/a/stranger", "x")
	time.Sleep(3 * time.Second)
	return 5
}

// consistent compares everything that is believed with what Consul holds: each
// item has one key, that key's member works on it, and n1's states are the newest.
func (c *cluster) consistent() {
	c.t.Helper()
	keys := c.store.Keys()
	entries, _, err := c.store.List(c.t.Context(), keys.Root(), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	running := c.owners()
	owner, work, records, mine := map[string]string{}, []string{}, map[string]uint64{}, []string{}
	leader := ""
	for _, e := range entries {
		if e.Key == keys.Leader() {
			leader = e.Session
		} else if id, ok := keys.ParseMember(e.Key); ok {
			records[id] = e.CreateIndex
		} else if id, ok := keys.ParseWorkItem(e.Key); ok {
			work = append(work, id)
		} else if m, item, ok := keys.ParseAssignment(e.Key); ok && item != "" {
			if other, ok := owner[item]; ok {
				c.t.Errorf("%s has a key at %s and at %s", item, other, m)
			}
			owner[item] = m
			if m == "n1" {
				mine = append(mine, item)
			}
		}
	}
	if !maps.Equal(owner, running) {
		c.t.Errorf("the keys say %v, and the work runs at %v", owner, running)
	}
	if got := slices.Sorted(maps.Keys(owner)); !slices.Equal(got, work) {
		c.t.Errorf("items %v have owners, the workload is %v", got, work)
	}
	n1 := c.members["n1"].c
	if s := n1.Session().Get(); !s.Holds(time.Now(), time.Second) {
		c.t.Errorf("n1's session %+v", s)
	} else if e, _, err := c.client.Session().Info(s.ID, nil); err != nil || e == nil {
		c.t.Errorf("Consul does not know n1's session %q: %v", s.ID, err)
	}
	if m := n1.Membership().Get(); m.Phase != facts.Registered || m.Index != records["n1"] {
		c.t.Errorf("n1's membership is %+v, its record's index %d", m, records["n1"])
	}
	if got := slices.Collect(n1.Assignments().Get().Items.IDs()); !slices.Equal(got, mine) {
		c.t.Errorf("n1 knows of the assignments %v, Consul has %v", got, mine)
	}
	if got := slices.Collect(n1.Holdings().Get().Items.IDs()); !slices.Equal(got, mine) {
		c.t.Errorf("n1's holdings are %v, its assignments %v", got, mine)
	}
	leads := 0
	for id, m := range c.members {
		l := m.c.Leadership().Get()
		if l.Session != leader {
			c.t.Errorf("%s takes session %q for the leader's, the key is locked by %q", id,
				l.Session, leader)
		}
		if l.Role != facts.Leading {
			continue
		}
		leads++
		if got := slices.Collect(m.c.Workload().Get().Items.IDs()); !slices.Equal(got, work) {
			c.t.Errorf("the leader knows the workload %v, Consul has %v", got, work)
		}
		if got := slices.Collect(m.c.Members().Get().Items.IDs()); !slices.Equal(got,
			slices.Sorted(maps.Keys(records))) {
			c.t.Errorf("the leader knows the members %v, Consul has %v", got, records)
		}
		if m.c.Control().Get().Freeze {
			c.t.Errorf("the leader takes itself for frozen")
		}
		if p := m.c.Distribution().Get(); !p.Settled || p.Owned != len(work) {
			c.t.Errorf("the leader's plan is %+v of %d items", p, len(work))
		}
	}
	if leads != 1 {
		c.t.Errorf("%d members lead", leads)
	}
}

// incarnations of n1's actors, by the last part of the path.
func incarnations(r supervisor.Report) map[string]supervisor.Report {
	all := map[string]supervisor.Report{}
	for _, child := range r.Children {
		if child.Strategy == nil {
			all[child.Name] = child
		} else {
			all[child.Name] = child
			maps.Copy(all, incarnations(child))
		}
	}
	return all
}

// messagesOf counts what each actor takes, or asks, in an undisturbed episode.
func messagesOf(t *testing.T, where place) map[string]int {
	t.Helper()
	s := newSaboteur("nobody", where, 0, errs)
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		c.sabotaged(s)
		total := c.episode()
		c.await("all shared out", 20*time.Second, c.balanced(total))
		c.await("settled", 20*time.Second, c.settled)
		c.consistent()
	})
	return s.seen
}

// owners says who works on what now.
func (c *cluster) owners() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.judge.Working)
}

func (c *cluster) settled() bool {
	for _, m := range c.members {
		if m.c.Leadership().Get().Role == facts.Leading {
			return m.c.Distribution().Get().Settled
		}
	}
	return false
}

// eachFailure plays f for each of the first messages, or requests, of each actor
// and each of the ways to fail. Under the race detector an actor fails once, in one of the ways.
func eachFailure(t *testing.T, where place, most int, ways []failure,
	f func(t *testing.T, s *saboteur)) {
	counts, all := messagesOf(t, where), ways
	var came, wanted int // of all actors, under the race detector
	for i, actor := range everyActor {
		if raceDetector {
			most, ways = 1, all[i%len(all):][:1]
		}
		t.Run(actor, func(t *testing.T) {
			fired := 0
			for at := range min(counts[actor], most) {
				for _, how := range ways {
					t.Run(fmt.Sprintf("%s-%d-%s", where, at+1, how), func(t *testing.T) {
						s := newSaboteur(actor, where, at+1, how)
						f(t, s)
						if s.didFire() {
							fired++
						}
					})
				}
			}
			// Timers of the same instant come in any order, so one of the last may not come to
			// pass.
			want := min(counts[actor], most) * len(ways)
			if raceDetector {
				came, wanted, want = came+fired, wanted+want, 0
			}
			if counts[actor] == 0 && where == atMessage || fired < want*3/4 {
				t.Errorf("%d failures of %d came to pass; it took %d messages undisturbed", fired,
					want, counts[actor])
			}
		})
	}
	if came < wanted*3/4 {
		t.Errorf("%d failures of %d came to pass", came, wanted)
	}
}
