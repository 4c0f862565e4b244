package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/aimed"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/messages"
	"github.com/hashicorp/consul/api"
)

// Values that somebody aims at the cluster, one in each field of each kind of key that it reads.
// Whatever cannot be so is named, in the log and in the status, and concerns nothing but its own
// item or member: all others are owned, and taken over, as ever.

// wide is a value that would fill a log.
var wide = `"` + strings.Repeat("x", map[bool]int{true: 30_000, false: 300_000}[raceDetector]) + `"`

// written collects what a cluster's members log.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// siege is a small cluster under aimed values.
type siege struct {
	*cluster
	out     *written
	options []option
}

func besiege(t *testing.T, f func(s *siege)) {
	run(t, func(c *cluster) {
		s := &siege{cluster: c, out: &written{}}
		s.options = []option{func(cfg *actors.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(s.out, nil))
			cfg.Lead = func(ctx context.Context) error { <-ctx.Done(); return nil }
		}}
		c.addWork(c.items(4)...)
		s.start("n1", s.options...)
		s.await("a leader", 20*time.Second, c.balanced(4))
		s.start("n2", s.options...)
		s.await("the items shared out", 40*time.Second, c.balanced(4))
		f(s)
	})
}

// aim writes a value where it is aimed at, with a plain PUT.
func (s *siege) aim(key string, value []byte, flags uint64) {
	s.t.Helper()
	if _, err := s.client.KV().Put(&api.KVPair{Key: s.store.Keys().Root() + key, Value: value,
		Flags: flags}, nil); err != nil {
		s.t.Fatal(err)
	}
}

// holds makes sure that the cluster works as ever: new items are owned, a lost member's are taken
// over, and it comes back.
func (s *siege) holds(items int) {
	s.t.Helper()
	first := s.consul.Dump().Index
	begin := time.Now()
	s.addWork("new_1", "new_2")
	s.await("the new items", 10*time.Second, s.all(items+2))
	s.kill("n2")
	s.await("the lost member's items", 45*time.Second, s.all(items+2))
	s.start("n2", s.options...)
	s.await("the lost member's return", 60*time.Second, func() bool {
		return s.loads()["n2"] > 0 && s.all(items+2)()
	})
	s.await("the rest", 30*time.Second, s.all(items+2))
	time.Sleep(20 * time.Second)
	if !s.all(items + 2)() {
		s.t.Errorf("loads %v", s.loads())
	}
	if n := s.consul.Dump().Index - first; n > 20*uint64(time.Since(begin).Seconds()) {
		s.t.Errorf("%d log entries in %v", n, time.Since(begin))
	}
	for line := range strings.Lines(s.out.String()) {
		if len(line) > 4000 {
			s.t.Errorf("a log line of %d bytes: %.200s", len(line), line)
		}
	}
}

// all tells whether so many items run.
func (s *siege) all(n int) func() bool { return func() bool { return sum(s.loads()) == n } }

// said makes sure that the log names a key.
func (s *siege) said(key string) {
	s.t.Helper()
	quoted, err := json.Marshal(key)
	if err != nil {
		s.t.Fatal(err)
	}
	if !strings.Contains(s.out.String(), key) && !strings.Contains(s.out.String(),
		strings.Trim(string(quoted), `"`)) {
		s.t.Errorf("the log does not name %s", key)
	}
}

// aimedValue is one value and what is special about it.
type aimedValue struct {
	what  string
	value []byte
}

// byField sorts the values of a kind by their field.
func byField(f aimed.Fields) map[string][]aimedValue {
	sorted := map[string][]aimedValue{}
	f.Each(wide, func(what string, value []byte) {
		field, _, found := strings.Cut(what, "=")
		if field, _, _ = strings.Cut(field, "."); !found {
			field = "whole"
		}
		sorted[field] = append(sorted[field], aimedValue{what, value})
	})
	return sorted
}

// few are those of which each takes a cluster of its own.
func few(f aimed.Fields, call func(aimedValue)) {
	for field, values := range byField(f) {
		for _, x := range values {
			_, value, _ := strings.Cut(x.what, "=")
			switch {
			case field == "whole" && len(x.value) != 1,
				strings.HasPrefix(x.what, field+".") && value != "9223372036854775807",
				// it makes each ten times as slow
				raceDetector && !(field == "sid" && value == `"a\nb"` ||
					field == "ttl" && value == "9223372036854775807" || x.what == `"{"`),
				field != "whole" && !slices.Contains([]string{`"a b"`, `"a\nb"`, "-1",
					"9223372036854775807", "wide"}, value):
				continue
			}
			call(x)
		}
	}
}

// names makes sure that the log names each of the keys, and the status as many as it has room for.
func (s *siege) names(keys []string) {
	s.t.Helper()
	for _, key := range keys {
		s.said(key)
	}
	op, err := actors.NewOperator(s.client, "demo")
	if err != nil {
		s.t.Fatal(err)
	}
	status, err := op.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if len(status.Strange) < min(10, len(keys)) {
		s.t.Errorf("of %d odd keys the status names %q", len(keys), status.Strange)
	}
}

func TestAimedAcksConcernNobodyElse(t *testing.T) {
	for field, values := range byField(aimed.Ack) {
		if raceDetector && field != "sid" {
			continue
		}
		t.Run("ghosts/"+field, func(t *testing.T) {
			besiege(t, func(s *siege) {
				var odd []string
				for i, x := range values {
					key := fmt.Sprintf("acks/ghost_%d", i)
					s.aim(key, x.value, 0)
					if _, err := protocol.ParseAck(x.value); err != nil {
						odd = append(odd, key)
					}
				}
				time.Sleep(2 * time.Second)
				s.names(odd)
				s.holds(4)
			})
		})
	}
	few(aimed.Ack, func(x aimedValue) {
		t.Run("own/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("acks/n2", x.value, 0)
				s.holds(4)
			})
		})
		t.Run("dead/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.kill("n2")
				s.aim("acks/n2", x.value, 0)
				s.start("n2", s.options...)
				s.await("its registration", 75*time.Second, func() bool {
					return s.members["n2"].c.Membership().Get().Session != ""
				})
				s.await("all items", 45*time.Second, s.all(4))
			})
		})
	})
}

func TestAimedRecordsConcernNobodyElse(t *testing.T) {
	t.Run("ghosts", func(t *testing.T) {
		besiege(t, func(s *siege) {
			var odd []string
			aimed.Member.Each(wide, func(_ string, value []byte) {
				odd = append(odd, fmt.Sprintf("members/ghost_%d", len(odd)))
				s.aim(odd[len(odd)-1], value, 0) // locked by no session: nobody's
			})
			time.Sleep(2 * time.Second)
			s.names(odd)
			s.holds(4)
		})
	})
	// Those that somebody keeps locked and that cannot be read are given nothing.
	t.Run("locked", func(t *testing.T) {
		besiege(t, func(s *siege) {
			session, _, err := s.client.Session().CreateNoChecks(&api.SessionEntry{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var odd []string
			aimed.Member.Each(wide, func(_ string, value []byte) {
				if _, err := protocol.ParseMemberRecord(value); err == nil {
					return
				}
				odd = append(odd, fmt.Sprintf("members/ghost_%d", len(odd)))
				if ok, _, err := s.client.KV().Acquire(&api.KVPair{Key: s.store.Keys().Root() +
					odd[len(odd)-1], Value: value, Session: session}, nil); err != nil || !ok {
					t.Fatal(ok, err)
				}
			})
			time.Sleep(2 * time.Second)
			s.names(odd)
			s.holds(4)
		})
	})
	// A member that lives writes its own again.
	few(aimed.Member, func(x aimedValue) {
		t.Run("own/"+x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("members/n2", x.value, 0)
				time.Sleep(2 * time.Second)
				s.holds(4)
			})
		})
	})
}

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

func TestAimedEventsConcernNobodyElse(t *testing.T) {
	each := func(call func(what string, value []byte)) {
		aimed.Record.Each(wide, call)
		aimed.Event.Each(wide, func(what string, value []byte) {
			call("e."+what, aimed.Record.With("e", fmt.Sprintf("[%s]", value)))
		})
	}
	besiege(t, func(s *siege) {
		n, odd := 0, []string(nil)
		each(func(_ string, value []byte) { // into every slot, the one that is next among them
			key := fmt.Sprintf("events/%d", n%protocol.EventSlots)
			s.aim(key, value, 0)
			n++
		})
		for _, name := range []string{"256", "65536", "9223372036854775807", "-1", "01", "x", "1/2"} {
			s.aim("events/"+name, []byte("{"), 0)
			odd = append(odd, "events/"+name)
		}
		for i := range 10 {
			s.aim(fmt.Sprintf("events/%d", i), []byte(wide), 0)
		}
		s.kill("n1") // it leads
		s.await("the lost leader's items", 60*time.Second, s.all(4))
		for _, key := range odd {
			s.said(key)
		}
		op, err := actors.NewOperator(s.client, "demo")
		if err != nil {
			s.t.Fatal(err)
		}
		events, err := op.Events(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if !slices.ContainsFunc(events, func(e actors.Event) bool {
			return e.Kind == "taken-over" && len(e.Items) > 0
		}) {
			s.t.Errorf("the take-over is not in the log of %d events", len(events))
		}
	})
	besiege(t, func(s *siege) {
		each(func(_ string, value []byte) { s.aim("events/0", value, 0) })
		s.holds(4)
	})
	// A log that was deleted begins anew.
	besiege(t, func(s *siege) {
		if _, err := s.client.KV().DeleteTree(s.store.Keys().Events(), nil); err != nil {
			s.t.Fatal(err)
		}
		s.holds(4)
		op, err := actors.NewOperator(s.client, "demo")
		if err != nil {
			s.t.Fatal(err)
		}
		if events, err := op.Events(s.t.Context()); err != nil || len(events) == 0 {
			s.t.Errorf("%d events, %v", len(events), err)
		}
	})
}

// One stray byte, and a command that takes its time to stop.
func TestAnUnreadableAssignmentOfSlowWorkIsTakenBackOnce(t *testing.T) {
	run(t, func(c *cluster) {
		c.addWork(c.items(4)...)
		for _, id := range []string{"n1", "n2"} {
			c.start(id, func(cfg *actors.Config) {
				work := cfg.Work
				cfg.StopTimeout = time.Minute
				cfg.Work = func(ctx context.Context, item actors.Item) error {
					slow, end := context.WithCancel(context.WithoutCancel(ctx))
					defer context.AfterFunc(ctx, func() { time.Sleep(10 * time.Second); end() })()
					return work(slow, item)
				}
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
		"obey": {"", "x", "9999-12-31T23:59:59Z",
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

func TestAnAimedTermConcernsNobodyElse(t *testing.T) {
	few(aimed.Term, func(x aimedValue) {
		t.Run(x.what, func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("term", x.value, 0)
				s.kill("n1") // the leader
				s.await("its items at the other", 47*time.Second, s.all(4))
				s.addWork("new_1")
				s.await("the new item", 10*time.Second, s.all(5))
				s.await("the duty", 30*time.Second, func() bool {
					return s.members["n2"].c.Leadership().Get().Role == messages.Leading
				})
				for line := range strings.Lines(s.out.String()) {
					if len(line) > 4000 {
						t.Errorf("a log line of %d bytes: %.200s", len(line), line)
					}
				}
			})
		})
	})
}

func TestAimedSummariesConcernNobody(t *testing.T) {
	besiege(t, func(s *siege) {
		op, err := actors.NewOperator(s.client, "demo")
		if err != nil {
			s.t.Fatal(err)
		}
		each := func(what string, value []byte) {
			s.aim("states/n1", value, 0)
			s.aim("states/ghost", value, 0)
			status, _, _, err := op.Look(s.t.Context())
			if err != nil {
				s.t.Fatalf("%s: %v", what, err)
			}
			if _, err := protocol.ParseWorkSummary(value); err != nil && len(status.Strange) != 2 {
				s.t.Errorf("%s: the status names %q", what, status.Strange)
			}
		}
		aimed.Summary.Each(wide, each)
		aimed.Report.Each(wide, func(what string, value []byte) {
			each(what, aimed.Summary.With("items", "["+string(value)+"]"))
		})
		s.holds(4)
	})
}

func TestAimedQuarantinesConcernNobodyElse(t *testing.T) {
	besiege(t, func(s *siege) {
		op, err := actors.NewOperator(s.client, "demo")
		if err != nil {
			s.t.Fatal(err)
		}
		n := 0
		each := func(what string, value []byte) {
			s.aim(fmt.Sprintf("quarantine/ghost%d", n), value, 0)
			n++
		}
		aimed.Quarantine.Each(wide, each)
		aimed.Failed.Each(wide, func(what string, value []byte) {
			each(what, aimed.Quarantine.With("failed", "["+string(value)+"]"))
		})
		status, _, _, err := op.Look(s.t.Context())
		if err != nil || len(status.Strange) != 10 {
			s.t.Errorf("the status names %q (%v)", status.Strange, err)
		}
		s.aim("leader", []byte("n1"), 1<<64-1) // a new epoch reads them
		s.holds(4)
	})
}

func TestAnAimedLeaderKeyConcernsNobodyElse(t *testing.T) {
	for _, value := range []string{"", "a/b", "\x1b]52;c;eA==\x07", "\xff",
		strings.Repeat("x", 300_000)} {
		t.Run(fmt.Sprintf("%.10q", value), func(t *testing.T) {
			besiege(t, func(s *siege) {
				s.aim("leader", []byte(value), 1<<64-1)
				s.holds(4)
			})
		})
	}
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

// owner is who works on an item.
func (s *siege) owner(item string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judge.Working[item]
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
