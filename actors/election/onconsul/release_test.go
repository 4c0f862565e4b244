package onconsul_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A release is late, and its leader leads again meanwhile with the token that it had. The release
// would take the leadership from under a duty that has begun.
func TestAReleaseThatArrivesLateTakesTheLeadershipFromNobody(t *testing.T) {
	if err := lateRelease(t); err != nil {
		t.Error(err)
	}
}

func lateRelease(t *testing.T) (err error) {
	bubble(t, func(t *testing.T, s *embedded) {
		var kept atomic.Pointer[http.Request]
		conn := s.over(transport.When(s.consul.RoundTripper(), func(r *http.Request) bool {
			return kept.Load() == nil && transport.TxnWith(`state/leader"`, `"delete"`)(r)
		}, func(r *http.Request) (*http.Response, error) {
			kept.Store(transport.Copy(r))
			return transport.Hang(r)
		}))
		defer conn.Close()
		b, e := conn.Open(contested)
		must(t, e)
		_, e = b.Join(t.Context(), election.Candidate{ID: "A", Name: "a"})
		must(t, e)
		token, _, e := b.Take(t.Context())
		must(t, e)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e := b.Release(soon); e == nil {
			t.Fatal("the release was heard of: this shows nothing")
		}
		again, _, e := b.Take(t.Context())
		must(t, e)
		transport.Again(s.consul.RoundTripper(), kept.Load())
		pair, _, e := s.consul.Client().KV().Get(conn.LeaderKey(contested), nil)
		must(t, e)
		if pair == nil || pair.CreateIndex != token || again != token {
			err = errors.New("it leads again, and its late release was carried out")
		}
		must(t, b.Leave(t.Context()))
	})
	return err
}
