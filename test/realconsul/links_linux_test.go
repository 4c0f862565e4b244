package realconsul_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/test/realconsul"
)

func TestAPartedLeaderLosesItsLeadershipAndTheOthersElectOne(t *testing.T) {
	t.Parallel()
	c := realconsul.Start(t, realconsul.Options{Servers: 3, Links: true})
	put(t, c.Client(), "a", "1")
	old := c.Leader()
	var rest []*realconsul.Server
	for _, s := range c.Servers {
		if s != old {
			rest = append(rest, s)
		}
	}
	consistent := func(s *realconsul.Server, wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, _, err := s.Client().KV().Get("a",
			(&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	}
	begin := time.Now()
	if err := c.Part(rest); err != nil {
		t.Fatal(err)
	}
	for consistent(rest[0], 5*time.Second) != nil || consistent(rest[1], 5*time.Second) != nil {
		if time.Since(begin) > time.Minute {
			t.Fatal("the majority answers no consistent read")
		}
	}
	t.Logf("the majority goes on after %v", time.Since(begin).Round(time.Millisecond))
	put(t, rest[0].Client(), "a", "2")
	if err := consistent(old, 3*time.Second); err == nil {
		t.Error("the old leader, alone, answers a consistent read")
	}
	pair, _, err := old.Client().KV().Get("a", &api.QueryOptions{AllowStale: true})
	if err != nil || pair == nil || string(pair.Value) != "1" {
		t.Errorf("the old leader has heard of what was written since: %v, %v", pair, err)
	}
	begin = time.Now()
	if err := c.Mend(); err != nil {
		t.Fatal(err)
	}
	ready(t, c)
	t.Logf("mended after %v", time.Since(begin).Round(time.Millisecond))
	if pair, _, err := old.Client().KV().Get("a",
		&api.QueryOptions{RequireConsistent: true}); err != nil || pair == nil ||
		string(pair.Value) != "2" {
		t.Errorf("mended, and the old leader has not heard: %v, %v", pair, err)
	}
}
