package onconsul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/electiontest"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// A Consul server that was started anew replays its log, and with it the lock-delay that an earlier
// leader has left. Whoever has the leadership since waits for nobody: when its lease had run out it
// leads again at once, with its token.
func TestALapsedLeaderWaitsForNoLockDelayOfItsPredecessor(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		var cut, delays atomic.Bool
		took := transport.When(s.consul.RoundTripper(), func(r *http.Request) bool {
			return delays.Load() && takes(r)
		}, transport.Always(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":4,"What":`+
			`"failed to lock key \"election/demo/state/leader\" due to lock delay"}]}`))
		c, err := onconsul.Connect(onconsul.Config{Logger: s.log, CheckTTL: onconsul.NoCheck,
			Client: devconsul.ClientOver(transport.When(took, func(*http.Request) bool {
				return cut.Load()
			}, transport.Fail(errReset)))})
		must(t, err)
		a := s.joins(c, "a", 0)
		token := a.State().Get().Token
		cut.Store(true)
		time.Sleep(11 * time.Second)
		if now := a.State().Get(); now.Role != election.Uncertain {
			t.Fatalf("it is %v: this tests nothing", now)
		}
		delays.Store(true)
		cut.Store(false)
		if _, err := a.State().Wait(t.Context(), func(now election.Status) bool {
			return now.Role != election.Uncertain
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if now := a.State().Get(); now.Role != election.Leading || now.Token != token {
			t.Errorf("it is %v, and had led with token %d", now, token)
		}
		delays.Store(false)
		electiontest.Resign(a)
		c.Close()
	})
}
