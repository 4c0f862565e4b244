package actors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// onlooker asks a router all the time where the items are, and compares what it says with what the
// members do.
type onlooker struct {
	c      *cluster
	router *routing.Router
	net    *transport.Wire
	stop   func()

	mu     sync.Mutex
	began  map[string]map[uint64]time.Time // item -> grant -> when its work was started
	counts map[string]int                  // answers by kind
}

// onlook runs a router with a way to Consul of its own. Members that are to be watched are started
// with its option.
func (c *cluster) onlook() *onlooker {
	c.t.Helper()
	o := &onlooker{c: c, net: transport.NewWire(c.consul.RoundTripper()),
		began: map[string]map[uint64]time.Time{}, counts: map[string]int{}}
	var err error
	o.router, err = routing.New(routing.Config{Service: "demo", Client: devconsul.ClientOver(o.net),
		Logger: c.log})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.router.Run(ctx) }()
	o.stop = func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the router ended with %v", err)
		}
	}
	return o
}

// onlookThree starts three members that are watched, and waits until all n items are located.
func (c *cluster) onlookThree(n int) (o *onlooker, items []string) {
	c.t.Helper()
	o, items = c.onlook(), c.items(n)
	c.addWork(items...)
	for _, id := range []string{"n1", "n2", "n3"} {
		c.start(id, o.address)
	}
	c.await("shared out", time.Minute, c.balanced(n))
	c.await("located", time.Second, o.agrees(items))
	return o, items
}

func (o *onlooker) address(cfg *actors.Config) {
	cfg.Address = cfg.ID + ".test:80"
	work := cfg.Work
	cfg.Work = func(ctx context.Context, item actors.Item) error {
		o.mu.Lock()
		if o.began[item.ID] == nil {
			o.began[item.ID] = map[uint64]time.Time{}
		}
		if _, again := o.began[item.ID][item.Grant]; !again {
			o.began[item.ID][item.Grant] = time.Now()
		}
		o.mu.Unlock()
		return work(ctx, item)
	}
}

// bound is how long after the start of work elsewhere the router may still name the owner of
// before: while it can reach Consul, and at all.
const propagation = 100 * time.Millisecond

// look asks for every item once, and waits for nothing but a look at Consul. Limit is how long work
// under a larger grant may have been going on.
func (o *onlooker) look(items []string, limit time.Duration) {
	now, done := time.Now(), canceled()
	for _, item := range items {
		loc, err := o.router.Locate(done, item)
		if errors.Is(err, context.Canceled) { // Consul is asked before it says "no owner"
			call, cancel := context.WithTimeout(o.c.t.Context(), propagation)
			loc, err = o.router.Locate(call, item)
			cancel()
		}
		o.counts[kindOf(err)]++
		if err != nil {
			continue
		}
		if loc.Address != loc.Member+".test:80" {
			o.c.t.Errorf("%s: address %q of %s", item, loc.Address, loc.Member)
		}
		o.mu.Lock()
		for grant, since := range o.began[item] {
			if grant > loc.Grant && now.Sub(since) > limit {
				o.c.t.Errorf(
					"%s is said to be at %s under grant %d; it was started under %d %v ago",
					item, loc.Member, loc.Grant, grant, now.Sub(since))
			}
		}
		o.mu.Unlock()
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func kindOf(err error) string {
	for name, kind := range map[string]error{"moving": actors.ErrMoving,
		"no owner": actors.ErrNoOwner, "unknown": actors.ErrUnknownItem,
		"not ready": actors.ErrNotReady} {
		if errors.Is(err, kind) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "owner"
}

// watch looks every 20 ms for d.
func (o *onlooker) watch(items []string, d, limit time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		o.look(items, limit)
	}
}

// agrees tells whether the router names for every item the member that works on it, and the grant
// of the work.
func (o *onlooker) agrees(items []string) func() bool {
	return func() bool {
		owners := o.c.owners()
		for _, item := range items {
			loc, err := o.router.Locate(o.c.t.Context(), item)
			o.c.mu.Lock()
			grant := o.c.judge.Tokens[item] / facts.Runs
			o.c.mu.Unlock()
			if err != nil || loc.Member != owners[item] || loc.Grant != grant {
				return false
			}
		}
		return true
	}
}

func TestLocateNamesTheOwnerItsAddressAndItsGrant(t *testing.T) {
	run(t, func(c *cluster) {
		o, items := c.onlookThree(30)
		defer o.stop()
		for _, item := range items {
			own, err := c.members["n2"].c.Locate(c.t.Context(), item)
			other, err2 := o.router.Locate(c.t.Context(), item)
			if err != nil || err2 != nil || own != other {
				t.Errorf("%s: a member says %+v (%v), a router %+v (%v)", item, own, err, other,
					err2)
			}
		}
		if _, err := o.router.Locate(c.t.Context(), "nobody-knows-it"); !errors.Is(err,
			actors.ErrUnknownItem) {
			t.Errorf("an item that is not in the workload: %v", err)
		}
		if _, err := o.router.Locate(c.t.Context(), "a/b"); !errors.Is(err, actors.ErrUnknownItem) {
			t.Errorf("an id that cannot be: %v", err)
		}
		members, err := o.router.Members(c.t.Context())
		if want := []routing.Member{{ID: "n1", Address: "n1.test:80"},
			{ID: "n2", Address: "n2.test:80"}, {ID: "n3", Address: "n3.test:80"}}; err != nil ||
			!slices.Equal(members, want) {
			t.Errorf("members %v, %v", members, err)
		}
	})
}

func TestAnOperatorLocatesWithoutARouter(t *testing.T) {
	run(t, func(c *cluster) {
		items := c.items(10)
		c.addWork(items...)
		c.start("n1")
		c.start("n2")
		c.await("shared out", time.Minute, c.balanced(10))
		op := c.operator()
		owners := c.owners()
		for _, item := range items {
			if loc, err := op.Locate(c.t.Context(), item); err != nil ||
				loc.Member != owners[item] || loc.Grant != c.judge.Tokens[item]/facts.Runs {
				t.Errorf("%s: %+v, %v; it is at %s under grant %d", item, loc, err, owners[item],
					c.judge.Tokens[item]/facts.Runs)
			}
		}
		if _, err := op.Locate(c.t.Context(), "nobody-knows-it"); !errors.Is(err,
			actors.ErrUnknownItem) {
			t.Errorf("an item that is not in the workload: %v", err)
		}
		c.kill("n1")
		c.stop("n2")
		if _, err := op.Locate(c.t.Context(), items[0]); !errors.Is(err, actors.ErrNoOwner) {
			if loc, err := op.Locate(c.t.Context(), items[0]); err != nil || loc.Member != "n1" {
				t.Errorf("nobody works any more: %+v, %v", loc, err)
			}
		}
		c.await("no owner", time.Minute, func() bool {
			_, err := op.Locate(c.t.Context(), items[0])
			return errors.Is(err, actors.ErrNoOwner)
		})
	})
}

// A stop, a kill, a restart under the same id, a joiner, a removal: the router follows, and is
// never wrong for longer than it takes to hear of it.
func TestARouterIsNeverWrongForLongerThanItTakesToHearOfAChange(t *testing.T) {
	seeds := uint64(6)
	if raceDetector {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, func(c *cluster) {
				o := c.onlook()
				defer o.stop()
				rng := rand.New(rand.NewPCG(seed, 1))
				items := c.items(24)
				c.addWork(items...)
				ids := []string{"n1", "n2", "n3", "n4"}
				for _, id := range ids[:3] {
					c.start(id, o.address)
				}
				for range 12 {
					o.watch(items, time.Duration(rng.IntN(25_000))*time.Millisecond, propagation)
					id := ids[rng.IntN(len(ids))]
					switch _, there := c.members[id]; {
					case !there:
						c.start(id, o.address)
					case rng.IntN(2) == 0:
						c.kill(id)
					default:
						c.stop(id)
					}
				}
				for _, id := range ids {
					if _, there := c.members[id]; !there {
						c.start(id, o.address)
					}
				}
				o.watch(items, 2*time.Minute, propagation)
				c.await("all are located", time.Second, o.agrees(items))
				for _, kind := range []string{"owner", "moving", "no owner"} {
					if o.counts[kind] == 0 {
						t.Errorf("no answer was %q: %v", kind, o.counts)
					}
				}
				t.Log(o.counts)
			})
		})
	}
}

// Cut off, the router goes on for its greatest age and then says that it does not know; items move
// all the while.
func TestARouterWithoutConsulNamesNobodyOnceItsTableIsTooOld(t *testing.T) {
	for name, fault := range map[string]func(*transport.Wire) (mend func()){
		"refused": func(n *transport.Wire) func() {
			n.Cut(errors.New("refused"))
			return func() {
				n.Cut(nil)
			}
		},
		"silent": func(n *transport.Wire) func() { n.Freeze(); return n.Thaw },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				o, items := c.onlookThree(24)
				defer o.stop()
				mend := fault(o.net)
				c.stop("n1")
				old := o.router.MaxAge() + propagation
				o.watch(items, old, old)
				clear(o.counts)
				o.watch(items, time.Minute, propagation)
				if len(o.counts) != 1 || o.counts["not ready"] == 0 {
					t.Errorf("after %v without Consul: %v", old, o.counts)
				}
				mend()
				// Not a moment between hearing of Consul again and having read everything anew.
				o.watch(items, 10*time.Second, propagation)
				c.await("located again", 5*time.Second, o.agrees(items))
			})
		})
	}
}

// What hears of Consul again first says nothing of what has not: the pulse and the watch of acks/
// may be answered long before the members and their items are read anew.
func TestARouterThatHearsOfConsulAgainNamesNobodyBeforeAllIsReadAnew(t *testing.T) {
	// Who of them asks first after the outage is a matter of their backoffs.
	phases := 36
	if raceDetector {
		phases = 3
	}
	for phase := range phases {
		deaf := []string{"routing-members", "share-n1", "share-n2"}[phase%3]
		t.Run(fmt.Sprintf("%s-%d", deaf, phase), func(t *testing.T) {
			run(t, func(c *cluster) {
				o, items := c.onlookThree(6)
				defer o.stop()
				o.net.Cut(errors.New("refused"))
				c.stop("n1")
				o.watch(items, o.router.MaxAge()+propagation, o.router.MaxAge()+propagation)
				time.Sleep(time.Duration(phase) * 137 * time.Millisecond)
				thawed := make(chan struct{})
				o.net.Via(frozenFor(c.consul.RoundTripper(), deaf, thawed))
				o.net.Cut(nil)
				clear(o.counts)
				o.watch(items, 20*time.Second, propagation)
				if len(o.counts) != 1 || o.counts["not ready"] == 0 {
					t.Errorf("while %s has read nothing: %v", deaf, o.counts)
				}
				close(thawed)
				c.await("located again", 5*time.Second, o.agrees(items))
			})
		})
	}
}

// A long poll that hangs, alone or with others of its kind, makes no answer older than the greatest
// age.
func TestALongPollThatHangsMakesNoAnswerOlderThanTheGreatestAge(t *testing.T) {
	for i, deaf := range []string{"routing-members", "routing-acks", "share-n1", "share-n2",
		"share-n3", "share-n1 share-n2 share-n3", "routing-members share-n1 share-n2 share-n3",
		"routing-members routing-acks share-n1 share-n2 share-n3"} {
		for name, leave := range map[string]func(*cluster, string){
			"stopped": (*cluster).stop, "killed": (*cluster).kill} {
			if raceDetector && (name == "killed") != (i%2 == 0) {
				continue
			}
			t.Run(deaf+"-"+name, func(t *testing.T) {
				run(t, func(c *cluster) {
					o, items := c.onlookThree(6)
					defer o.stop()
					thawed := make(chan struct{})
					for actor := range strings.FieldsSeq(deaf) {
						o.net.Via(frozenFor(o.net.To(), actor, thawed))
					}
					c.addWork("one-more") // what is under way ends
					o.watch(items, 10*time.Second, propagation)
					leave(c, "n1")
					o.watch(items, 40*time.Second, o.router.MaxAge()+propagation)
					close(thawed)
					c.await("located again", o.router.MaxAge(), o.agrees(items))
				})
			})
		}
	}
}

// Consul forgets deletions after a quarter of an hour, and the indexes of their prefixes go back.
func TestARouterOutlivesTheDeletionsThatConsulForgets(t *testing.T) {
	run(t, func(c *cluster) {
		o := c.onlook()
		defer o.stop()
		items := c.items(12)
		c.addWork(items...)
		for _, id := range []string{"n1", "n2", "n3", "n4"} {
			c.start(id, o.address)
		}
		c.await("shared out", time.Minute, c.balanced(12))
		c.put("control/drain/n3", "x")
		time.Sleep(time.Minute)
		c.stop("n1")
		c.await("located", time.Minute, o.agrees(items))
		time.Sleep(10 * time.Second)
		clear(o.counts)
		for range 40 * 60 {
			time.Sleep(time.Second)
			o.look(items, propagation)
		}
		if len(o.counts) != 1 || o.counts["owner"] == 0 {
			t.Errorf("while nothing happened: %v", o.counts)
		}
	})
}
