package actors_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/aimed"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// What is aimed at items, their assignments and the orders about them: see aimed_test.go.

func TestAimedAssignmentsConcernNobodyElse(t *testing.T) {
	for field, values := range byField(aimed.Assignment) {
		for chunk := range slices.Chunk(values, 4) { // of many stray keys the brake takes notice
			if raceDetector && &chunk[0] != &values[0] {
				break
			}
			t.Run("ghosts/"+field, func(t *testing.T) {
				besiege(t, func(s *siege) {
					var odd []string
					for i, x := range chunk {
						keys := []string{fmt.Sprintf("assignments/ghost/device_group_000%d", i+1),
							fmt.Sprintf("assignments/ghost/nothing_%d", i)}
						for _, key := range keys { // a second key of an item, and one of none
							s.aim(key, x.value, 0)
						}
						if _, err := protocol.ParseAssignment(x.value); err != nil {
							odd = append(odd, keys...)
						}
					}
					s.aim("acks/ghost", []byte("1"), 0) // "look again"
					time.Sleep(2 * time.Second)
					s.names(odd)
					s.holds(4)
				})
			})
		}
	}
	few(aimed.Assignment, func(x aimedValue) {
		t.Run("own/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				at := s.owner("device_group_0001")
				keys := []string{"assignments/" + at + "/device_group_0001", "assignments/" + at +
					"/nothing"}
				for _, key := range keys {
					s.aim(key, x.value, 0)
				}
				time.Sleep(100 * time.Millisecond)
				if _, err := protocol.ParseAssignment(x.value); err != nil {
					s.said(keys[0]) // the status shows it until it is written anew
					s.said(keys[1])
				}
				s.holds(4)
			})
		})
	})
}

// One stray byte, and a command that takes its time to stop.
func TestAnUnreadableAssignmentOfSlowWorkIsTakenBackOnce(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		for _, id := range []string{"n1", "n2"} {
			c.start(id, stopsIn(10*time.Second), func(cfg *actors.Config) {
				cfg.StopTimeout = time.Minute
			})
		}
		c.await("the items shared out", 40*time.Second, c.balanced(4))
		s := &siege{cluster: c}
		at := s.owner("device_group_0001")
		before := c.consul.Dump().Index
		s.aim("assignments/"+at+"/device_group_0001", []byte("\x07"), 0)
		time.Sleep(9 * time.Second)
		if n := c.consul.Dump().Index - before; n > 20 {
			t.Errorf("%d log entries while the work of one item stops", n)
		}
		c.await("it runs again", 30*time.Second, c.balanced(4))
	})
}

func TestAimedItemsConcernNobodyElse(t *testing.T) {
	besiege(t, func(s *siege) {
		weights := []uint64{0, 1, 1 << 31, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1}
		for i, flags := range weights {
			s.aim(fmt.Sprintf("workload/heavy_%d", i), nil, flags)
		}
		s.await("they run", 20*time.Second, s.all(4+len(weights)))
		s.holds(4 + len(weights))
	})
	besiege(t, func(s *siege) {
		var odd []string
		for _, id := range []string{"a/b", " x", "x ", "a\nb", "\x1b]52;c;eA==\x07",
			strings.Repeat("x", 300), strings.Repeat("x", 20_000), "%2e%2e", "a%20b", "a//b",
			"x/"} {
			// A transaction takes keys that a single PUT would change on the way.
			ok, _, _, err := s.client.Txn().Txn(api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVSet,
				Key: s.store.Keys().WorkItem(id), Value: []byte("x")}}}, nil)
			if err != nil || !ok {
				continue // Consul does not take it
			}
			// else it is shortened, or quoted in another way
			if len(id) < 1000 && !strings.HasPrefix(id, "\x1b") {
				odd = append(odd, "workload/"+id)
			}
		}
		if len(odd) < 4 {
			t.Fatalf("Consul took only %q", odd)
		}
		time.Sleep(2 * time.Second)
		for _, key := range odd {
			s.said(key)
		}
		s.names(odd[:4])
		s.holds(4)
	})
}

func TestAimedOrdersConcernNobodyElse(t *testing.T) {
	orders := map[string][]string{
		"override": {"", "x", "9999-12-31T23:59:59Z",
			"0001-01-01T00:00:00Z", "\xff", strings.Repeat("9", 300_000)},
		"drain/a b":    {"", "x"},
		"drain/a/b":    {"", "x"},
		"drain/ghost":  {"", "\xff"},
		"pins/nothing": {"", "n1", "ghost", "a/b"},
		"pins/device_group_0001": {"", "a/b", "\xff", "..", strings.Repeat("x", 300_000),
			"a\nb"},
		"pins/a/b":                         {"n1"},
		"whatever":                         {"", "x", strings.Repeat("x", 300_000)},
		"freeze/x":                         {"", "x"},
		strings.Repeat("y", 10_000):        {"x"},
		"pins/" + strings.Repeat("z", 300): {"n1"},
	}
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			besiege(t, func(s *siege) {
				for key, values := range orders {
					s.aim("control/"+key, []byte(values[i%len(values)]), 0)
				}
				time.Sleep(2 * time.Second)
				s.names([]string{"control/drain/a/b", "control/pins/a/b", "control/whatever",
					"control/freeze/x"})
				s.holds(4)
			})
		})
	}
}

func TestAimedSummariesConcernNobody(t *testing.T) {
	besiege(t, func(s *siege) {
		op := s.operator()
		aimed.Summary.EachWith("items", aimed.Report, wide, func(what string, value []byte) {
			s.aim("states/n1", value, 0)
			s.aim("states/ghost", value, 0)
			status, _, _, err := op.Look(s.t.Context())
			if err != nil {
				s.t.Fatalf("%s: %v", what, err)
			}
			if _, err := protocol.ParseWorkSummary(value); err != nil && len(status.Strange) != 2 {
				s.t.Errorf("%s: the status names %q", what, status.Strange)
			}
		})
		s.holds(4)
	})
}

func TestAimedQuarantinesConcernNobodyElse(t *testing.T) {
	besiege(t, func(s *siege) {
		op := s.operator()
		n := 0
		aimed.Quarantine.EachWith("failed", aimed.Failed, wide, func(_ string, value []byte) {
			s.aim(fmt.Sprintf("quarantine/ghost%d", n), value, 0)
			n++
		})
		status, _, _, err := op.Look(s.t.Context())
		if err != nil || len(status.Strange) != 10 {
			s.t.Errorf("the status names %q (%v)", status.Strange, err)
		}
		s.aim("leader", []byte("n1"), 1<<64-1) // a new epoch reads them
		s.holds(4)
	})
}

// Ids that are each valid and make no key together: Consul refuses a key that holds a space, or two
// dots in a row, when escapes are taken out of the whole of it.
func TestIDsThatMakeNoKeyTogetherAreRefusedWhereTheyEnter(t *testing.T) {
	for _, id := range []string{"node 1", "node%201", "node%2d1", "100%", "node..1"} {
		_, err := actors.New(actors.Config{Service: "demo", ID: id})
		if err == nil || !strings.Contains(err.Error(), "space") && !strings.Contains(err.Error(),
			"percent escape") {
			t.Errorf("%q: %v", id, err)
		}
	}
	// One that got in otherwise, or runs an older version, is given nothing: the others have it
	// all.
	for _, member := range []string{"node 1", "node..1"} {
		besiege(t, func(s *siege) {
			id, _, err := s.client.Session().CreateNoChecks(&api.SessionEntry{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ok, _, err := s.client.KV().Acquire(&api.KVPair{Key: s.store.Keys().Member(member),
				Value: []byte("alive"), Session: id}, nil); err != nil || !ok {
				t.Fatal(ok, err)
			}
			s.addWork("https%3A%2F%2Fx", "https%3A%2F%2Fy", "https%3A%2F%2Fz")
			s.await("they run", 15*time.Second, s.all(7))
			s.holds(7)
		})
	}
}

// Something on the way, or Consul itself, calls one item's writes bad, for ever.
func TestAnItemWhoseWritesAreNeverTakenConcernsNoOther(t *testing.T) {
	besiege(t, func(s *siege) {
		for _, m := range s.members {
			m.net.Via(censor(s.consul.RoundTripper(), "poison"))
		}
		s.options = append(s.options, func(cfg *actors.Config) {
			client, err := api.NewClient(&api.Config{Address: "consul.test",
				HttpClient: &http.Client{Transport: censor(s.consul.RoundTripper(), "poison")}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Client = client
		})
		s.addWork("also_1", "poison", "also_2", "zoo")
		s.await("the others", 10*time.Second, s.all(7))
		s.said("/poison")
		s.holds(7)
	})
}

// censor answers 400 to every transaction that writes an assignment of an item.
func censor(to http.RoundTripper, item string) http.RoundTripper {
	return transport.When(to, transport.TxnWith("assignments/", "/"+item),
		transport.Always(http.StatusBadRequest, "blocked by policy"))
}
