package onconsul_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// A leader dies whose record a stranger has written over. Its guard departs for it, and the next
// one leads at once, and has kept its own record.
func TestADepartureGivesUpWhateverTheLeadersRecordSays(t *testing.T) {
	for name, value := range map[string]string{
		"an id that is no key": `{"id":"a\nb","name":"x"}`,
		"an id too long":       `{"id":"` + strings.Repeat("x", 400_000) + `","name":"x"}`,
		"an id of nobody":      `{"id":"nobody","name":"x"}`,
		"another one's id":     `{"id":"ID","name":"x"}`,
		"nonsense":             `?`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				w := &wire{next: s.consul.RoundTripper(), server: s}
				one, err := onconsul.Connect(onconsul.Config{Client: devconsul.ClientOver(w),
					Logger: s.log})
				must(t, err)
				defer one.Close()
				a := s.joins(one, "a", 0)
				two := s.over(s.consul.RoundTripper())
				defer two.Close()
				b := s.joins(two, "b", 0)
				kv := s.consul.Client().KV()
				id := b.State().Get().Self.ID
				kept := onconsul.DefaultPrefix + contested + "/candidates/" + id
				before, _, err := kv.Get(kept, nil)
				must(t, err)
				value := strings.ReplaceAll(value, "ID", id)
				_, err = kv.Put(&api.KVPair{Key: one.LeaderKey(contested), Value: []byte(value)},
					nil)
				must(t, err)
				session := one.Contact().Get().Session
				w.mu.Lock()
				cut := make(chan struct{})
				w.cut = cut
				w.mu.Unlock()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				begin := time.Now()
				if led, err := onconsul.Depart(ctx, onconsul.Config{Client: s.consul.Client()},
					contested, session); !led || err != nil {
					t.Errorf("the departure: %v, %v", led, err)
				}
				deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = b.State().Wait(deadline, func(s election.Status) bool {
					return s.Role == election.Leading
				})
				if took := time.Since(begin); err != nil || took > 2*time.Second {
					t.Errorf("the next one leads after %v (%v)", took, err)
				}
				after, _, err := kv.Get(kept, nil)
				must(t, err)
				if after == nil || after.CreateIndex != before.CreateIndex {
					t.Errorf("the next one's record was %+v, and is %+v", before, after)
				}
				w.mu.Lock()
				close(cut)
				w.cut = nil
				w.mu.Unlock()
				b.Resign()
				<-a.Done()
				<-b.Done()
			})
		})
	}
}
