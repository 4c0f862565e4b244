package actorstest_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goTest runs one test as go test does, whatever this go test was asked for: an example shows
// neither the log of a verbose one nor that it left the test out.
func goTest(f func(*testing.T)) (passed bool) {
	for name, value := range map[string]string{"v": "false", "run": "", "skip": ""} {
		set := flag.Lookup("test." + name).Value
		was := set.String()
		_ = set.Set(value)
		defer func() { _ = set.Set(was) }()
	}
	return testing.RunTests(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Test", F: f}})
}

// all is a condition: the member works on all of n items.
func all(c *actorstest.Cluster, member string, n int) func() bool {
	return func() bool {
		workers := c.Workers()
		for _, m := range workers {
			if m != member {
				return false
			}
		}
		return len(workers) == n
	}
}

func TestALostMembersItemsAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t)
		c.AddWork("w1", "w2", "w3", "w4")
		a := c.Start("a", nil)
		c.Start("b", nil)
		c.Await(10*time.Second, "all to run", func() bool { return len(c.Workers()) == 4 })
		a.Lose()
		for _, m := range c.Workers() {
			if m == "a" {
				t.Error("a lost member still works")
			}
		}
		c.Await(35*time.Second, "b to have all", all(c, "b", 4))
	})
}

func TestAMemberThatWasCutOffComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t)
		c.AddWork("w1", "w2")
		a := c.Start("a", nil)
		c.Await(10*time.Second, "a to have all", all(c, "a", 2))
		a.CutOff()
		c.Await(10*time.Second, "a to have stopped", func() bool { return len(c.Workers()) == 0 })
		c.Start("b", nil)
		c.Await(60*time.Second, "b to have all", all(c, "b", 2))
		a.Mend()
		c.Await(60*time.Second, "a to have its share", func() bool {
			w := c.Workers()
			return len(w) == 2 && w["w1"] != w["w2"]
		})
		a.Stop()
		c.Await(5*time.Second, "b to have all", all(c, "b", 2))
		again := c.Start("a", nil, func(cfg *actors.Config) { cfg.TTL = 20 * time.Second })
		if got := again.Coordinator().Settings().TTL; got != 20*time.Second {
			t.Errorf("the TTL is %v", got)
		}
		c.ConsulElection(3 * time.Second)
		c.Await(60*time.Second, "a to have its share", func() bool {
			w := c.Workers()
			return len(w) == 2 && w["w1"] != w["w2"]
		})
	})
}

// recorder is a testing.TB that keeps errors to itself.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestWorkThatOutlivesItsContextIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		c := actorstest.New(r)
		c.AddWork("w1")
		deaf, hear := context.WithCancel(context.Background())
		a := c.Start("a", func(context.Context, actors.Item) error { <-deaf.Done(); return nil })
		c.Await(10*time.Second, "a to have it", all(c, "a", 1))
		b := c.Start("b", nil)
		a.CutOff()
		time.Sleep(60 * time.Second)
		hear()
		a.Lose()
		b.Stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.errors) != 1 || !strings.Contains(r.errors[0], "b starts w1") ||
			!strings.Contains(r.errors[0], "while a still works on it") {
			t.Errorf("it was told %q", r.errors)
		}
	})
}

func TestTheClientReachesTheConsulOfTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := actorstest.New(t)
		c.AddWork("w1")
		c.Start("a", nil)
		c.Await(10*time.Second, "a to have all", all(c, "a", 1))
		keys, _, err := c.Client().KV().Keys("service/", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(keys, func(key string) bool {
			return strings.HasSuffix(key, "/assignments/a/w1")
		}) {
			t.Errorf("a works on w1, and no key says so: %q", keys)
		}
	})
}
