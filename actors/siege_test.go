package actors_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/aimed"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/hashicorp/consul/api"
)

// wide is a value that would fill a log.
var wide = `"` + strings.Repeat("x", map[bool]int{true: 30_000, false: 300_000}[raceDetector]) + `"`

// siege is a small cluster under aimed values.
type siege struct {
	*cluster
	out     *testkit.Output // what its members log
	options []option
}

func besiege(t *testing.T, f func(s *siege)) {
	run(t, func(c *cluster) {
		s := &siege{cluster: c, out: &testkit.Output{}}
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
	op := s.operator()
	status, err := op.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if len(status.Strange) < min(10, len(keys)) {
		s.t.Errorf("of %d odd keys the status names %q", len(keys), status.Strange)
	}
}

// owner is who works on an item.
func (s *siege) owner(item string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judge.Working[item]
}
