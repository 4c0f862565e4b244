package onconsul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
)

// A leader's token has lost what renews and ends its session. Its process lives and reports to the
// check, or the agent may not say that it no longer does: the session ends by its TTL.
func TestALeaderThatMayNoLongerRenewIsSucceeded(t *testing.T) {
	for name, cfg := range map[string]onconsul.Config{
		"with a check":       {},
		"without one":        {CheckTTL: onconsul.NoCheck},
		"with a short lease": {TTL: 20 * time.Second, Lease: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				var denied atomic.Bool
				cfg.Client = devconsul.ClientOver(s.forbidding(func(r *http.Request) bool {
					return denied.Load() && strings.HasPrefix(r.URL.Path, "/v1/session/")
				}))
				cfg.Logger = s.log
				one, err := onconsul.Connect(cfg)
				must(t, err)
				two := s.over(s.consul.RoundTripper())
				a, b := s.joins(one, "a", 0), s.joins(two, "b", 0)
				denied.Store(true)
				cfg.CheckTTL = onconsul.NoCheck
				limit, _ := cfg.TakeOver()
				if took := untilLeads(b); took > limit {
					t.Errorf("b leads after %v, more than %v; a is %v", took, limit, a.State().Get())
				}
				denied.Store(false)
				electiontest.Resign(a, b)
				one.Close()
				two.Close()
			})
		})
	}
}
