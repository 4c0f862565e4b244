package onconsul_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// An order is given by somebody who waits for it, and who alone can mend the rules.
func TestAnOrderThatIsDeniedSaysSoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		two := s.over(s.consul.RoundTripper())
		a, b := s.joins(two, "a", 0), s.joins(two, "b", 0)
		reads := s.over(s.forbidding(func(r *http.Request) bool {
			return transport.TxnWith(contested)(r) && !transport.TxnWith(`"get`)(r)
		}))
		e, err := election.New(reads, election.Config{Election: contested, Logger: s.log})
		must(t, err)
		for name, order := range map[string]func(context.Context) error{
			"a hand-over": func(ctx context.Context) error { return e.HandOver(ctx, "b") },
			"an end":      e.End,
			"a deletion":  e.Delete,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			begin := time.Now()
			if err := order(ctx); !errors.Is(err, store.ErrDenied) ||
				time.Since(begin) > time.Second {
				t.Errorf("%s: after %v %v", name, time.Since(begin), err)
			}
			cancel()
		}
		electiontest.Resign(a, b)
		reads.Close()
		two.Close()
	})
}
