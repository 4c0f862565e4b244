package onconsul_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
)

// Consul is restored, while an election is being deleted, from a moment before its end.
func TestADeleteDuringWhichConsulIsRestoredDeletes(t *testing.T) {
	for name, lost := range map[string]bool{
		"while its leader stops":                    false,
		"while the lock-delay of its leader passes": true,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				one, two := s.over(s.consul.RoundTripper()), s.over(s.consul.RoundTripper())
				var stopped atomic.Bool
				a := nominated(t, one, election.Config{Election: contested, Name: "a",
					Logger: s.log, Lead: func(ctx context.Context, _ election.Status) error {
						<-ctx.Done()
						time.Sleep(20 * time.Second)
						stopped.Store(true)
						return nil
					}})
				time.Sleep(time.Second)
				b := s.joins(two, "b", 0)
				before := s.consul.Snapshot()
				if lost {
					_, err := s.consul.Client().Session().Destroy(one.Contact().Get().Session, nil)
					must(t, err)
				}
				operator, err := election.New(two, election.Config{Election: contested,
					Logger: s.log})
				must(t, err)
				deleted := make(chan error)
				go func() { deleted <- operator.Delete(t.Context()) }()
				time.Sleep(2 * time.Second)
				must(t, s.consul.Restore(before))
				must(t, <-deleted)
				keys, _, err := s.consul.Client().KV().Keys("election/"+contested+"/", "", nil)
				must(t, err)
				if len(keys) > 0 || !lost && !stopped.Load() {
					t.Errorf("there are %v; the leader has stopped: %v", keys, stopped.Load())
				}
				<-a.Done()
				<-b.Done()
				one.Close()
				two.Close()
			})
		})
	}
}
